(* The alignment of exponential noise in Top-K, over the integers, for every n and k.

   docs/exponential-top-k.md tells the proof with a pencil; its steps 1 to 5 are the theorems here.
   `ws` are the winners and `ls` the losers, as indices; `q` are the answers, `eta` their noise, and
   `s` how far each answer falls: the neighbour is q - s. On integers answers may tie, so the claim
   is that the winners are still a top set, with the same leads.

   `shift` and `unshift` are what `extremes`, `extremes_undone` and `shift_of` of
   dpgap/mechanisms/top_k.py work out: tests/proof/test_coq.py compares them on the same numbers,
   and requires that this file is refused when one of its definitions is changed. *)

From Coq Require Import ZArith List Lia Bool.
Import ListNotations.
Open Scope Z_scope.

(* --- The largest and smallest of a function over a list that is not empty. --- *)

Fixpoint max_of (f : nat -> Z) (head : nat) (tail : list nat) : Z :=
  match tail with
  | [] => f head
  | next :: rest => Z.max (f head) (max_of f next rest)
  end.

Definition min_of (f : nat -> Z) (head : nat) (tail : list nat) : Z :=
  - max_of (fun i => - f i) head tail.

Lemma max_is_reached : forall f tail head,
  exists i, In i (head :: tail) /\ f i = max_of f head tail.
Proof.
  intros f tail. induction tail as [|next rest IH]; intros head.
  - exists head. simpl. auto.
  - destruct (IH next) as [i [inside equal]]. simpl max_of.
    destruct (Z.max_spec (f head) (max_of f next rest)) as [[_ ->] | [_ ->]].
    + exists i. split; [right; exact inside | exact equal].
    + exists head. split; [left; reflexivity | reflexivity].
Qed.

Lemma max_is_above : forall f tail head i, In i (head :: tail) -> f i <= max_of f head tail.
Proof.
  intros f tail. induction tail as [|next rest IH]; intros head i inside.
  - destruct inside as [-> | []]. simpl. lia.
  - simpl max_of. destruct inside as [-> | inside]; [lia |]. specialize (IH next i inside). lia.
Qed.

Lemma max_is : forall f head tail v i,
  In i (head :: tail) -> f i = v -> (forall j, In j (head :: tail) -> f j <= v) ->
  max_of f head tail = v.
Proof.
  intros f head tail v i inside equal above.
  pose proof (max_is_above f tail head i inside).
  destruct (max_is_reached f tail head) as [j [within reached]].
  specialize (above j within). lia.
Qed.

Lemma min_is_reached : forall f tail head,
  exists i, In i (head :: tail) /\ f i = min_of f head tail.
Proof.
  intros f tail head. destruct (max_is_reached (fun i => - f i) tail head) as [i [inside equal]].
  exists i. unfold min_of. split; [exact inside | lia].
Qed.

Lemma min_is_below : forall f tail head i, In i (head :: tail) -> min_of f head tail <= f i.
Proof.
  intros f tail head i inside. unfold min_of.
  pose proof (max_is_above (fun i => - f i) tail head i inside). simpl in *. lia.
Qed.

Lemma min_is : forall f head tail v i,
  In i (head :: tail) -> f i = v -> (forall j, In j (head :: tail) -> v <= f j) ->
  min_of f head tail = v.
Proof.
  intros f head tail v i inside equal below. unfold min_of.
  rewrite (max_is _ head tail (- v) i inside); [lia | lia |].
  intros j within. specialize (below j within). lia.
Qed.

(* The first index at the largest value. *)
Fixpoint first_at (f : nat -> Z) (v : Z) (head : nat) (tail : list nat) : nat :=
  match tail with
  | [] => head
  | next :: rest => if f head =? v then head else first_at f v next rest
  end.

Lemma first_is_there : forall f v tail head,
  (exists i, In i (head :: tail) /\ f i = v) ->
  In (first_at f v head tail) (head :: tail) /\ f (first_at f v head tail) = v.
Proof.
  intros f v tail. induction tail as [|next rest IH]; intros head [i [inside equal]].
  - destruct inside as [-> | []]. simpl. auto.
  - simpl first_at. destruct (Z.eqb_spec (f head) v) as [here | elsewhere].
    + split; [left; reflexivity | exact here].
    + destruct inside as [-> | inside]; [contradiction |].
      destruct (IH next) as [within found]; [exists i; auto |].
      split; [right; exact within | exact found].
Qed.

Definition argmax (f : nat -> Z) (head : nat) (tail : list nat) : nat :=
  first_at f (max_of f head tail) head tail.

Lemma argmax_is_there : forall f head tail,
  In (argmax f head tail) (head :: tail) /\ f (argmax f head tail) = max_of f head tail.
Proof.
  intros. apply first_is_there. apply max_is_reached.
Qed.

Definition is_in (i : nat) (indices : list nat) : bool := existsb (Nat.eqb i) indices.

Lemma is_in_spec : forall i indices, is_in i indices = true <-> In i indices.
Proof.
  intros. unfold is_in. rewrite existsb_exists. split.
  - intros [j [inside equal]]. apply Nat.eqb_eq in equal. subst. exact inside.
  - intros inside. exists i. split; [exact inside | apply Nat.eqb_refl].
Qed.

(* --- The alignment, and what undoes it. Functions of numbers, as in the program. --- *)

Section Alignment.

Variables (w : nat) (ws : list nat) (l : nat) (ls : list nat).
Let winners := w :: ws.
Let losers := l :: ls.

Variables q s : nat -> Z.

Definition tau (eta : nat -> Z) : Z :=
  min_of (fun i => eta i + s i) w ws - min_of eta w ws.
Definition level (eta : nat -> Z) : Z := max_of (fun j => q j + eta j) l ls.
Definition level_after (eta : nat -> Z) : Z := max_of (fun j => q j - s j + eta j) l ls.
Definition fall (eta : nat -> Z) : Z := level eta - level_after eta.
Definition drop (eta : nat -> Z) : Z := Z.min (fall eta) (tau eta).
Definition best (eta : nat -> Z) : nat := argmax (fun j => q j + eta j) l ls.

Definition shift (eta : nat -> Z) (i : nat) : Z :=
  if is_in i winners then s i - drop eta
  else if (tau eta <? fall eta) && (i =? best eta)%nat then s i - tau eta
  else 0.

Definition shifted (eta : nat -> Z) (i : nat) : Z := eta i + shift eta i.

(* From shifted noise alone. *)
Definition tau_again (eta' : nat -> Z) : Z :=
  min_of eta' w ws - min_of (fun i => eta' i - s i) w ws.
Definition best_again (eta' : nat -> Z) : nat := argmax (fun j => q j - s j + eta' j) l ls.

Definition unshift (eta' : nat -> Z) (i : nat) : Z :=
  if is_in i winners then Z.min (fall eta') (tau_again eta') - s i
  else if (tau_again eta' <? fall eta') && (i =? best_again eta')%nat then tau_again eta' - s i
  else 0.

(* --- What is given: a top set, falls between 0 and R, noise that is not negative. --- *)

Variables (eta : nat -> Z) (R : Z).
Hypothesis apart : forall i, In i winners -> ~ In i losers.
Hypothesis losers_once : NoDup losers.
Hypothesis falls : forall i, 0 <= s i <= R.
Hypothesis noise : forall i, 0 <= eta i.
Hypothesis top_set : forall i j, In i winners -> In j losers -> q j + eta j <= q i + eta i.

Lemma winner_shift : forall i, In i winners -> shift eta i = s i - drop eta.
Proof.
  intros i inside. unfold shift. apply is_in_spec in inside. rewrite inside. reflexivity.
Qed.

Lemma no_winner : forall j, In j losers -> is_in j winners = false.
Proof.
  intros j inside. destruct (is_in j winners) eqn:found; [| reflexivity].
  apply is_in_spec in found. destruct (apart j found inside).
Qed.

Lemma best_is : In (best eta) losers /\ q (best eta) + eta (best eta) = level eta.
Proof. exact (argmax_is_there (fun j => q j + eta j) l ls). Qed.

Lemma loser_shift : forall j, In j losers ->
  shift eta j = if (tau eta <? fall eta) && (j =? best eta)%nat then s j - tau eta else 0.
Proof. intros j inside. unfold shift. rewrite (no_winner j inside). reflexivity. Qed.

(* Winner y pays for the loser; x has the smallest noise. *)
Lemma tau_of_two : exists x y, In x winners /\ In y winners
  /\ (forall i, In i winners -> eta x <= eta i)
  /\ (forall i, In i winners -> eta y + s y <= eta i + s i)
  /\ tau eta = eta y + s y - eta x.
Proof.
  destruct (min_is_reached eta ws w) as [x [x_in x_is]].
  destruct (min_is_reached (fun i => eta i + s i) ws w) as [y [y_in y_is]].
  exists x, y. repeat split; try assumption.
  - intros i inside. rewrite x_is. apply min_is_below. exact inside.
  - intros i inside. rewrite y_is. apply (min_is_below (fun i => eta i + s i)). exact inside.
  - unfold tau. lia.
Qed.

(* Step 1. *)
Theorem tau_and_drop_are_bounded : 0 <= tau eta <= R /\ 0 <= drop eta <= R.
Proof.
  destruct tau_of_two as [x [y [x_in [y_in [x_least [y_least ->]]]]]].
  pose proof (x_least y y_in). pose proof (y_least x x_in).
  pose proof (falls x). pose proof (falls y).
  assert (0 <= fall eta).
  { unfold fall, level, level_after.
    destruct (max_is_reached (fun j => q j - s j + eta j) ls l) as [m [m_in m_is]].
    pose proof (max_is_above (fun j => q j + eta j) ls l m m_in). pose proof (falls m).
    simpl in *. lia. }
  unfold drop. destruct tau_of_two as [x' [y' [x'_in [y'_in [x'_least [y'_least ->]]]]]].
  pose proof (x'_least y' y'_in). pose proof (y'_least x' x'_in).
  pose proof (falls x'). pose proof (falls y'). lia.
Qed.

Lemma fall_is_at_most_that_of_the_best : fall eta <= s (best eta).
Proof.
  destruct best_is as [inside equal]. unfold fall, level_after.
  pose proof (max_is_above (fun j => q j - s j + eta j) ls l (best eta) inside). simpl in *. lia.
Qed.

(* Step 2. *)
Theorem noise_stays_at_0_or_above : forall i, In i winners \/ In i losers -> 0 <= shifted eta i.
Proof.
  intros i [inside | inside]; unfold shifted.
  - rewrite (winner_shift i inside). unfold drop.
    destruct tau_of_two as [x [y [x_in [y_in [x_least [y_least equal]]]]]].
    pose proof (y_least i inside). pose proof (noise x). lia.
  - rewrite (loser_shift i inside). pose proof (noise i).
    destruct (Z.ltb_spec (tau eta) (fall eta)); simpl; [| lia].
    destruct (Nat.eqb_spec i (best eta)); [subst | lia].
    pose proof fall_is_at_most_that_of_the_best. lia.
Qed.

(* Where the best loser is after the shifts. *)
Lemma new_level : level_after (shifted eta) = level eta - drop eta.
Proof.
  destruct best_is as [best_in best_at]. unfold level_after, drop.
  destruct (Z.ltb_spec (tau eta) (fall eta)) as [raised | kept].
  - rewrite Z.min_r by lia. apply (max_is _ _ _ _ (best eta) best_in).
    + unfold shifted. rewrite (loser_shift _ best_in).
      destruct (Z.ltb_spec (tau eta) (fall eta)); [| lia].
      rewrite Nat.eqb_refl. simpl. lia.
    + intros j inside. unfold shifted. rewrite (loser_shift j inside).
      pose proof (max_is_above (fun j => q j - s j + eta j) ls l j inside) as below.
      fold (level_after eta) in below. simpl in below. unfold fall in raised.
      destruct (Nat.eqb_spec j (best eta)); [subst | rewrite andb_false_r; lia].
      destruct (Z.ltb_spec (tau eta) (fall eta)); unfold fall in *; simpl; lia.
  - rewrite Z.min_l by lia. unfold fall.
    destruct (max_is_reached (fun j => q j - s j + eta j) ls l) as [m [m_in m_is]].
    assert (same : forall j, In j losers -> shifted eta j = eta j).
    { intros j inside. unfold shifted. rewrite (loser_shift j inside).
      destruct (Z.ltb_spec (tau eta) (fall eta)); [lia | simpl; lia]. }
    replace (level eta - (level eta - level_after eta)) with (level_after eta) by lia.
    apply (max_is _ _ _ _ m m_in).
    + rewrite (same m m_in). exact m_is.
    + intros j inside. rewrite (same j inside).
      exact (max_is_above (fun j => q j - s j + eta j) ls l j inside).
Qed.

(* Step 3: the same leads over the best loser. So the order is the same, and a top set stays one. *)
Theorem leads_are_the_same : forall i, In i winners ->
  q i - s i + shifted eta i - level_after (shifted eta) = q i + eta i - level eta.
Proof.
  intros i inside. rewrite new_level. unfold shifted. rewrite (winner_shift i inside). lia.
Qed.

Theorem the_winners_are_still_a_top_set : forall i j, In i winners -> In j losers ->
  q j - s j + shifted eta j <= q i - s i + shifted eta i.
Proof.
  intros i j i_in j_in. pose proof (leads_are_the_same i i_in) as lead.
  pose proof (max_is_above (fun j => q j - s j + shifted eta j) ls l j j_in) as below.
  fold (level_after (shifted eta)) in below. simpl in below.
  destruct best_is as [best_in best_at]. pose proof (top_set i (best eta) i_in best_in). lia.
Qed.

(* Step 4. *)
Fixpoint sum_of (f : nat -> Z) (indices : list nat) : Z :=
  match indices with [] => 0 | i :: rest => f i + sum_of f rest end.

Lemma sum_of_parts : forall f a b, sum_of f (a ++ b) = sum_of f a + sum_of f b.
Proof. intros f a b. induction a; simpl; lia. Qed.

Lemma sum_is_at_most : forall f bound indices, (forall i, In i indices -> f i <= bound) ->
  sum_of f indices <= bound * Z.of_nat (length indices).
Proof.
  intros f bound indices. induction indices as [|i rest IH]; intros each.
  - simpl. lia.
  - simpl sum_of. pose proof (each i (or_introl eq_refl)).
    assert (sum_of f rest <= bound * Z.of_nat (length rest)).
    { apply IH. intros j inside. apply each. right. exact inside. }
    change (length (i :: rest)) with (S (length rest)). lia.
Qed.

Lemma sum_is_0 : forall f indices, (forall i, In i indices -> f i = 0) -> sum_of f indices = 0.
Proof.
  intros f indices. induction indices as [|i rest IH]; intros each; [reflexivity |].
  simpl. rewrite (each i (or_introl eq_refl)), IH; [reflexivity |].
  intros j inside. apply each. right. exact inside.
Qed.

Let cost (i : nat) : Z := Z.abs (shift eta i).

Lemma a_winner_costs_at_most : forall i, In i winners -> cost i <= R.
Proof.
  intros i inside. unfold cost. rewrite (winner_shift i inside).
  pose proof (falls i). pose proof tau_and_drop_are_bounded. lia.
Qed.

Theorem shifts_cost_at_most :
  sum_of cost winners + sum_of cost losers <= R * Z.of_nat (length winners).
Proof.
  destruct best_is as [best_in best_at].
  destruct (in_split (best eta) losers best_in) as [before [after split]].
  assert (others : forall j, In j losers -> j <> best eta -> cost j = 0).
  { intros j inside other. unfold cost. rewrite (loser_shift j inside).
    destruct (Nat.eqb_spec j (best eta)); [contradiction |]. rewrite andb_false_r. reflexivity. }
  assert (of_losers : sum_of cost losers = cost (best eta)).
  { pose proof losers_once as once. rewrite split in once. apply NoDup_remove_2 in once.
    rewrite split, sum_of_parts. simpl sum_of.
    rewrite (sum_is_0 cost before), (sum_is_0 cost after); [lia | |].
    - intros j inside. apply others.
      + rewrite split. apply in_or_app. right. right. exact inside.
      + intros ->. apply once. apply in_or_app. right. exact inside.
    - intros j inside. apply others.
      + rewrite split. apply in_or_app. left. exact inside.
      + intros ->. apply once. apply in_or_app. left. exact inside. }
  rewrite of_losers. unfold cost at 2. rewrite (loser_shift _ best_in), Nat.eqb_refl, andb_true_r.
  destruct (Z.ltb_spec (tau eta) (fall eta)) as [raised | kept].
  - destruct tau_of_two as [x [y [x_in [y_in [x_least [y_least equal]]]]]].
    destruct (in_split y winners y_in) as [first [rest parts]].
    assert (of_y : cost y = tau eta - s y).
    { unfold cost. rewrite (winner_shift y y_in). unfold drop. rewrite Z.min_r by lia.
      pose proof (x_least y y_in). lia. }
    assert (part : forall some, (forall i, In i some -> In i winners) ->
                   sum_of cost some <= R * Z.of_nat (length some)).
    { intros some inside. apply sum_is_at_most.
      intros i within. exact (a_winner_costs_at_most i (inside i within)). }
    rewrite parts, sum_of_parts, app_length. simpl sum_of. simpl length.
    assert (sum_of cost first <= R * Z.of_nat (length first)).
    { apply part. intros i inside. rewrite parts. apply in_or_app. left. exact inside. }
    assert (sum_of cost rest <= R * Z.of_nat (length rest)).
    { apply part. intros i inside. rewrite parts. apply in_or_app. right. right. exact inside. }
    pose proof fall_is_at_most_that_of_the_best. pose proof (falls (best eta)).
    pose proof (falls y). pose proof (x_least y y_in). lia.
  - simpl Z.abs. rewrite Z.add_0_r. apply sum_is_at_most. exact a_winner_costs_at_most.
Qed.

(* Step 5. *)
Lemma tau_can_be_read_off : tau_again (shifted eta) = tau eta.
Proof.
  destruct tau_of_two as [x [y [x_in [y_in [x_least [y_least equal]]]]]]. unfold tau_again.
  rewrite (min_is (shifted eta) w ws (eta y + s y - drop eta) y y_in).
  - rewrite (min_is (fun i => shifted eta i - s i) w ws (eta x - drop eta) x x_in); [lia | |].
    + unfold shifted. rewrite (winner_shift x x_in). lia.
    + intros i inside. unfold shifted. rewrite (winner_shift i inside).
      pose proof (x_least i inside). lia.
  - unfold shifted. rewrite (winner_shift y y_in). lia.
  - intros i inside. unfold shifted. rewrite (winner_shift i inside).
    pose proof (y_least i inside). lia.
Qed.

Lemma the_case_can_be_read_off :
  (tau eta < fall eta -> fall (shifted eta) = s (best eta) /\ best_again (shifted eta) = best eta)
  /\ (fall eta <= tau eta -> fall (shifted eta) = fall eta).
Proof.
  destruct best_is as [best_in best_at]. split.
  - intros raised.
    assert (best_up : shifted eta (best eta) = eta (best eta) + (s (best eta) - tau eta)).
    { unfold shifted. rewrite (loser_shift _ best_in).
      destruct (Z.ltb_spec (tau eta) (fall eta)); [| lia]. rewrite Nat.eqb_refl. reflexivity. }
    assert (others : forall j, In j losers -> j <> best eta -> shifted eta j = eta j).
    { intros j inside other. unfold shifted. rewrite (loser_shift j inside).
      destruct (Nat.eqb_spec j (best eta)); [contradiction |]. rewrite andb_false_r. lia. }
    pose proof fall_is_at_most_that_of_the_best.
    assert (above : level (shifted eta) = level eta + (s (best eta) - tau eta)).
    { unfold level at 1. apply (max_is _ _ _ _ (best eta) best_in); [rewrite best_up; lia |].
      intros j inside. destruct (Nat.eq_dec j (best eta)) as [-> | other]; [lia |].
      rewrite (others j inside other).
      pose proof (max_is_above (fun j => q j + eta j) ls l j inside) as below.
      fold (level eta) in below. simpl in below. lia. }
    assert (after : level_after (shifted eta) = level eta - tau eta).
    { rewrite new_level. unfold drop. lia. }
    split; [unfold fall at 1; lia |].
    destruct (argmax_is_there (fun j => q j - s j + shifted eta j) l ls) as [inside reached].
    fold (best_again (shifted eta)) in inside, reached.
    fold (level_after (shifted eta)) in reached. rewrite after in reached.
    destruct (Nat.eq_dec (best_again (shifted eta)) (best eta)) as [same | other]; [exact same |].
    rewrite (others _ inside other) in reached.
    pose proof (max_is_above (fun j => q j - s j + eta j) ls l _ inside) as below.
    fold (level_after eta) in below. unfold fall in raised. simpl in below. lia.
  - intros kept. unfold fall at 1. rewrite new_level. unfold drop. rewrite Z.min_l by lia.
    replace (level (shifted eta)) with (level eta); [lia |]. symmetry. unfold level at 1.
    assert (same : forall j, In j losers -> shifted eta j = eta j).
    { intros j inside. unfold shifted. rewrite (loser_shift j inside).
      destruct (Z.ltb_spec (tau eta) (fall eta)); [lia | simpl; lia]. }
    apply (max_is _ _ _ _ (best eta) best_in); [rewrite (same _ best_in); exact best_at |].
    intros j inside. rewrite (same j inside).
    exact (max_is_above (fun j => q j + eta j) ls l j inside).
Qed.

Theorem unshift_undoes_shift : forall i, In i winners \/ In i losers ->
  shifted eta i + unshift (shifted eta) i = eta i.
Proof.
  destruct the_case_can_be_read_off as [if_raised if_kept].
  pose proof fall_is_at_most_that_of_the_best.
  intros i [inside | inside]; unfold unshift; rewrite tau_can_be_read_off.
  - pose proof (proj2 (is_in_spec i winners) inside) as found. rewrite found.
    unfold shifted at 1. rewrite (winner_shift i inside). unfold drop.
    destruct (Z.ltb_spec (tau eta) (fall eta)) as [raised | kept].
    + destruct (if_raised raised) as [-> _]. lia.
    + rewrite (if_kept kept). lia.
  - rewrite (no_winner i inside). unfold shifted at 1. rewrite (loser_shift i inside).
    destruct (Z.ltb_spec (tau eta) (fall eta)) as [raised | kept].
    + destruct (if_raised raised) as [-> ->].
      destruct (Z.ltb_spec (tau eta) (s (best eta))); [| lia].
      destruct (Nat.eqb_spec i (best eta)); [subst; simpl; lia | simpl; lia].
    + rewrite (if_kept kept). destruct (Z.ltb_spec (tau eta) (fall eta)); [lia | simpl; lia].
Qed.

End Alignment.

(* --- Everybody wins: k = n. The winners share one drop, tau, and leads are over the last one. --- *)

Section EverybodyWins.

Variables (w : nat) (ws : list nat) (s eta : nat -> Z) (R : Z).
Let all := w :: ws.
Hypothesis falls : forall i, 0 <= s i <= R.
Hypothesis noise : forall i, 0 <= eta i.

Definition shift_of_all (eta : nat -> Z) (i : nat) : Z := s i - tau w ws s eta.
Definition unshift_of_all (eta' : nat -> Z) (i : nat) : Z := tau_again w ws s eta' - s i.
Let after (i : nat) : Z := eta i + shift_of_all eta i.

Theorem all_noise_stays_at_0_or_above : forall i, In i all -> 0 <= after i.
Proof.
  intros i inside. destruct (tau_of_two w ws s eta) as [x [y [x_in [_ [_ [least equal]]]]]].
  unfold after, shift_of_all. pose proof (least i inside). pose proof (noise x). lia.
Qed.

Theorem all_come_down_alike : forall q i j,
  (q i - s i + after i) - (q j - s j + after j) = (q i + eta i) - (q j + eta j).
Proof. intros. unfold after, shift_of_all. lia. Qed.

(* The noise of y does not rise, so one of n costs nothing: exponential noise costs what it rises. *)
Theorem all_shifts_cost_at_most :
  sum_of (shift_of_all eta) all <= R * (Z.of_nat (length all) - 1).
Proof.
  destruct (tau_of_two w ws s eta) as [x [y [x_in [y_in [least_x [least_y equal]]]]]].
  destruct (in_split y all y_in) as [first [rest parts]].
  pose proof (least_x y y_in) as y_at_least. pose proof (least_y x x_in) as x_at_least.
  pose proof (falls y) as of_y. pose proof (falls x) as of_x.
  assert (each : forall i, shift_of_all eta i <= R).
  { intros i. unfold shift_of_all. pose proof (falls i). lia. }
  assert (least : shift_of_all eta y <= 0) by (unfold shift_of_all; lia).
  rewrite parts, sum_of_parts, app_length. simpl sum_of. simpl length.
  pose proof (sum_is_at_most (shift_of_all eta) R first (fun i _ => each i)).
  pose proof (sum_is_at_most (shift_of_all eta) R rest (fun i _ => each i)). lia.
Qed.

Theorem unshift_undoes_shift_of_all : forall i, after i + unshift_of_all after i = eta i.
Proof.
  destruct (tau_of_two w ws s eta) as [x [y [x_in [y_in [least_x [least_y equal]]]]]].
  assert (read : tau_again w ws s after = tau w ws s eta).
  { unfold tau_again. unfold after, shift_of_all.
    rewrite (min_is _ w ws (eta y + s y - tau w ws s eta) y y_in).
    - rewrite (min_is _ w ws (eta x - tau w ws s eta) x x_in); [lia | lia |].
      intros i inside. pose proof (least_x i inside). lia.
    - lia.
    - intros i inside. pose proof (least_y i inside). lia. }
  intros i. unfold unshift_of_all. rewrite read. unfold after, shift_of_all. lia.
Qed.

End EverybodyWins.

(* Each must be "Closed under the global context": nothing is assumed. *)
Print Assumptions tau_and_drop_are_bounded.
Print Assumptions the_winners_are_still_a_top_set.
Print Assumptions leads_are_the_same.
Print Assumptions noise_stays_at_0_or_above.
Print Assumptions shifts_cost_at_most.
Print Assumptions unshift_undoes_shift.
Print Assumptions all_noise_stays_at_0_or_above.
Print Assumptions all_come_down_alike.
Print Assumptions all_shifts_cost_at_most.
Print Assumptions unshift_undoes_shift_of_all.
