"""The files of an operator for each suite of AgentDojo: the tools with trusted results, and lists of payees and domains.

Both were written once, the first from the descriptions of the tools, the second from the user's own account and address.
"""

TRUSTED = {
    "banking": (
        "get_iban",
        "get_balance",
        "get_user_info",
        "get_scheduled_transactions",
        "send_money",
        "schedule_transaction",
        "update_scheduled_transaction",
        "update_password",
        "update_user_info",
    ),
    "slack": (
        "add_user_to_channel",
        "send_direct_message",
        "send_channel_message",
        "invite_user_to_slack",
        "remove_user_from_slack",
        "post_webpage",
    ),
    "travel": (
        "get_user_information",
        "get_all_hotels_in_city",
        "get_hotels_prices",
        "get_hotels_address",
        "get_all_restaurants_in_city",
        "get_cuisine_type_for_restaurants",
        "get_restaurants_address",
        "get_dietary_restrictions_for_all_restaurants",
        "get_contact_information_for_restaurants",
        "get_price_for_restaurants",
        "check_restaurant_opening_hours",
        "get_all_car_rental_companies_in_city",
        "get_car_types_available",
        "get_car_fuel_options",
        "get_car_rental_address",
        "get_car_price_per_day",
        "get_flight_information",
        "create_calendar_event",
        "cancel_calendar_event",
        "reserve_hotel",
        "reserve_car_rental",
        "reserve_restaurant",
        "send_email",
    ),
    "workspace": (
        "get_current_day",
        "get_sent_emails",
        "get_draft_emails",
        "search_contacts_by_name",
        "search_contacts_by_email",
        "send_email",
        "delete_email",
        "create_calendar_event",
        "cancel_calendar_event",
        "create_file",
    ),
}
"""Untrusted are received mails and messages, web pages, reviews, files, events and transactions: others write in them."""

_PAYEES = (
    "SE3550000000054910000003",
    "GB29NWBK60161331926819",
    "US122000000121212121212",
    "CH9300762011623852957",
)
"""To whom the account has paid before."""
_DOMAIN = "bluesparrowtech.com"
"""The domain of the user's own address."""


def _only(tool: str, allowed: tuple[str, ...], values: str, given: str = "true") -> str:
    listed = ", ".join(f'"{one}"' for one in allowed)
    return (
        f'@id("a list for {tool}") forbid (principal, action == Action::"{tool}", resource)\n'
        f"when {{ {given} && !([{listed}].{values}) }} unless {{ context.confirmed }};\n"
    )


def _mail(tool: str, argument: str) -> str:
    return _only(tool, (_DOMAIN,), f"containsAll(context.domain.{argument})")


LISTS = {
    "banking": _only("send_money", _PAYEES, "contains(context.arguments.recipient)")
    + _only("schedule_transaction", _PAYEES, "contains(context.arguments.recipient)")
    + _only(
        "update_scheduled_transaction",
        _PAYEES,
        "contains(context.arguments.recipient)",
        "context.arguments has recipient",
    ),
    "slack": "",
    "travel": _mail("send_email", "recipients") + _mail("create_calendar_event", "participants"),
    "workspace": _mail("send_email", "recipients")
    + _mail("create_calendar_event", "participants")
    + _mail("add_calendar_event_participants", "participants")
    + _mail("share_file", "email"),
}
"""Beside the shipped rule: a change for anybody else needs a yes. The workspace of the suite `slack` has no such list."""
