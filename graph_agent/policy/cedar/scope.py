"""The scopes of rules: which tools a rule is about."""

from __future__ import annotations

from cedarpy import pst

from graph_agent.policy.cedar.schema import ToolAction


def covers(rule: pst.Template, action: ToolAction) -> bool:
    """True if the scope of `rule` admits calls of a tool, by some user."""
    if isinstance(rule.principal, pst.ScopeIs | pst.ScopeIsIn) and str(rule.principal.entity_type) != "User":
        return False
    return _covers_action(rule.action, action) and _covers_server(rule.resource, action.server)


def _covers_action(scope: pst.ActionConstraint, action: ToolAction) -> bool:
    if isinstance(scope, pst.ActionEq):
        return is_action(scope.entity, action.name)
    if isinstance(scope, pst.ActionIn):
        return any(is_action(one, name) for one in scope.entities for name in (action.name, *action.groups))
    return True


def _covers_server(scope: pst.PrincipalOrResourceConstraint, server: str) -> bool:
    if isinstance(scope, pst.ScopeIs | pst.ScopeIsIn) and str(scope.entity_type) != "Server":
        return False
    if isinstance(scope, pst.ScopeEq | pst.ScopeIn | pst.ScopeIsIn):
        return isinstance(scope.entity, pst.EntityUid) and (str(scope.entity.type), scope.entity.id) == ("Server", server)
    return True


def is_action(entity: pst.EntityUid, name: str) -> bool:
    return (str(entity.type), entity.id) == ("Action", name)
