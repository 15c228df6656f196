"""Verification of rule sets and their activations against what the log has stated about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from graph_agent.db import Database
from graph_agent.models.rule_set import ActivationKind
from graph_agent.record.rule_sets import list_activations, list_rule_sets
from graph_agent.record.rules_head import find_forged
from graph_agent.record.tamper.tree_check import read_all
from graph_agent.record.tamper.violations import ViolationKind, ViolationList
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.statements import Statement, StatementKind


async def check_rules(
    database: Database, sealer: Sealer, statements: Sequence[Statement], named: Mapping[str, str], violations: ViolationList
) -> None:
    """Report activations and rule sets that were added, changed or deleted by hand.

    `named` has the digests that records name, each with a decision.
    """
    changes = [one for one in statements if one.statement is StatementKind.RULES]
    stated = {number: one.rules for one in changes if (number := one.number) is not None}
    # No statement names the first rules before others have replaced them.
    stated.update((1, one.previous) for one in changes if one.number == 2)
    activations = await read_all(database, list_activations)
    stored = {one.number: one.digest for one in activations}
    for number in sorted(stated.keys() | stored.keys()):
        if number not in stored:
            violations.add(ViolationKind.REMOVED, f"the activation {number} of rules is missing, which the log has stated")
        elif stored[number] != stated.get(number, stored[number] if number == 1 else None):
            text = f"the activation {number} of rules is not the one that the log has stated: it was added or changed by hand"
            violations.add(ViolationKind.EDITED, text)
    kinds = {one.number: one.kind or ActivationKind.FOLLOWED for one in changes}
    forged = set(await read_all(database, partial(find_forged, sealer=sealer)))
    for one in activations:
        if one.number in forged or kinds.get(one.number, one.kind) != one.kind:
            violations.add(ViolationKind.EDITED, f"the activation {one.number} of rules was added or changed by hand")
    sets = await read_all(database, list_rule_sets)
    for digest, rule_set in sets.items():
        if rule_set.digest != digest:
            violations.add(ViolationKind.TEXT, f"the rule set {digest} does not match its digest")
    for digest in sorted(set(stored.values()) - sets.keys()):
        violations.add(ViolationKind.TEXT, f"the rule set {digest} is missing, which was in force")
    for digest in sorted(named.keys() - stored.values()):
        text = f"decision {named[digest]} names the rules {digest}, and no activation does"
        violations.add(ViolationKind.REMOVED, text, decision_id=named[digest])
