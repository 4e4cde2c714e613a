"""Mutants: mechanisms that look private and are not, and odd ones that are.

Most mutants have been published, or are slips that anybody could make. Each claims ε = 1 for
answers of sensitivity 1. It comes with the alignment its author might have had in mind, and with
an event that damns it: answers, a neighbour, and something that is more than e times as likely on
the one as on the other. The prover must refute every mutant, and the audit must catch it.

- `entry`: what the catalogue says of a mechanism, and the event that damns it.
- `sparse_vectors`, `adaptive`, `noisy_max`, `joint`, `hybrid`, `histogram`, `measuring`: the
  programs and their entries.
- `catalogue`: all of them.

May import `audit`, `checker`, `mechanisms` and what is below. Nothing here is public.
"""
