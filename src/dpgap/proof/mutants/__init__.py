"""Mutants: mechanisms that look private and are not, and odd ones that are.

Most mutants have been published, or are slips that anybody could make. Each claims ε = 1 for
answers of sensitivity 1. It is a mechanism that ships with a line or two of its program changed. It
comes with the alignment its author might have had in mind, and with an event that damns it:
answers, a neighbour, and something that is more than e times as likely on the one as on the other.
The prover must refute every mutant, and the audit must catch it.

- `entry`: how a program is changed, what the catalogue says of it, and the event that damns it.
- `catalogue`: all of them.

May import `audit`, `checker`, `mechanisms` and what is below. Nothing here is public.
"""
