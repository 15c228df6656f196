"""Answers to questions about actions, by the titles of their tools: what is a yes, and what only begins like one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Actions = Sequence[Sequence[str]]

CANCEL = [("Cancel a pending order", "Cancel pending order")]
CANCEL_RESERVATION = [("Cancel the whole reservation",)]
MODIFY = [("Modify items in an order",)]
ADDRESS = [("Change the shipping address of an order",)]
RETURN = [("Return items of a delivered order",)]
EXCHANGE = [("Exchange items of a delivered order",)]
REFUND = [("Refund a payment",)]
BOOK = [("Book a reservation",)]
DELETE = [("Remove tasks", "Delete a task")]
SEND = [("Send an email",)]
TWO_CANCELLATIONS = [("Cancel a pending order",), ("Cancel a pending order",)]
CANCEL_AND_RETURN = [("Cancel a pending order",), ("Return items of a delivered order",)]
THREE_RETURNS = [("Return items",), ("Return items",), ("Return items",)]

YES: Mapping[str, tuple[Actions, str]] = {
    "cancel": (
        CANCEL,
        """
Yes, please proceed with the cancellation.
Yes, cancel the order.
Yes, please cancel it.
Yes, go ahead with the cancellation, please.
I confirm the cancellation.
Yes, I confirm. Please proceed.
Yes, please cancel this order. Thank you.
Please go ahead and cancel it.
Yes, I want to proceed with the cancellation.
yes please cancel my order
Yes, that's correct. Please proceed.
Yes, everything looks good. Please proceed.
Ja, bitte.
Sì, procedi.
""",
    ),
    "cancel_reservation": (
        CANCEL_RESERVATION,
        """
Yes, cancel the reservation.
Yes, please proceed with cancelling the reservation.
""",
    ),
    "modify": (
        MODIFY,
        """
Yes, please go ahead with the changes.
Yes, proceed with the modification.
Yes, please proceed.
Yes, I confirm these changes.
Yes, that is all correct, please go ahead.
""",
    ),
    "address": (
        ADDRESS,
        """
Yes, change the address.
Yes, please change the shipping address.
""",
    ),
    "return": (
        RETURN,
        """
Yes, please proceed with the return.
Yes, go ahead with the return.
Yes, I would like to proceed with the return.
""",
    ),
    "exchange": (
        EXCHANGE,
        """
Yes, please proceed with the exchange.
Yes, I confirm the exchange.
Yes, go ahead and process the exchange.
""",
    ),
    "refund": (
        REFUND,
        """
Yes, please issue the refund.
Yes, proceed with the refund.
Yes, refund the payment.
""",
    ),
    "book": (
        BOOK,
        """
Yes, please book it.
Yes, go ahead with the booking.
Yes, please proceed with the booking.
Yes, book the reservation.
""",
    ),
    "delete": (
        DELETE,
        """
Yes, delete the task.
Yes, please remove it.
Yes, go ahead and delete it.
はい、お願いします
네, 진행해 주세요
Evet, lütfen
Ja, graag
Vâng
بله، لطفا
""",
    ),
    "send": (
        SEND,
        """
Yes, send the email.
Yes, please send it.
Go ahead and send it.
""",
    ),
    "two_cancellations": (
        TWO_CANCELLATIONS,
        """
Yes, cancel both.
Yes to both.
Yes, go ahead with both.
""",
    ),
    "cancel_and_return": (
        CANCEL_AND_RETURN,
        """
Yes, please do both.
Yes, both please.
Yes, go ahead with all of them.
""",
    ),
    "three_returns": (
        THREE_RETURNS,
        """
Yes, all of them.
Yes, return all of them.
Yes, go ahead with everything.
""",
    ),
}
"""Each is a yes to its actions."""

NO_YES: Mapping[str, tuple[Actions, str]] = {
    "cancel": (
        CANCEL,
        """
Yes, but only if I get a full refund.
Yes, cancel the other order.
Yes, exchange it.
Yes, please proceed with the exchange.
Yes, proceed with the return.
Yes, cancel my subscription.
Yes, cancel all orders.
Yes, cancel the orders.
Yes, cancel both.
Yes, cancel all of them.
Yes, and also cancel the second one.
Yes, cancel it and refund me.
Yes, cancel it tomorrow.
Yes, cancel it if it has not shipped.
Yes, can you cancel it?
Yes, when will I get my money?
Yes, but keep the lamp.
Yes, except the lamp.
Yes, not that one.
Yes, wait.
Yes, no.
Yes, I think so.
Yes, maybe.
Yes, but what about the fee?
Yes, unless there is a fee.
Yes, as long as it is free.
Yes, after the delivery.
Yes, I want to talk to a human.
Yes, I have another question.
Yes, the first one.
Yes, the blue one.
Yes, proceed with the refund to my card.
Yes, change the order.
Yes, modify the order.
Yes, don't cancel it.
Yes, please do not proceed.
Yes, keep it.
Yes, later.
Yes, tell me more.
Yes, order 4711.
Yes, cancel order 4711.
Yes, cancel the item.
Yes, cancel the lamp.
Yes, cancel the pending payment.
Yes, please proceed with the cancellation of the other one.
Yes, proceed with the cancellation and the refund.
Yes, proceed with cancelling the reservation.
Proceed with the order.
Go ahead with the order.
I confirm the order.
Yes, the order.
Yes, my order.
cancel
Cancel it.
Please cancel.
Yes, cancel that question.
Yes, whatever.
Yes, sure, right.
Yes?
Yes!?
Ja, bitte stornieren.
Ja, aber nur wenn es nichts kostet
Sì, annulla.
はい、キャンセルしてください
Evet, iptal et
Tak
Prima
Jo
結構です
大丈夫です
""",
    ),
    "modify": (
        MODIFY,
        """
Yes, modify the order.
Yes, change the order.
Yes, modify the item.
Yes, modify all items.
Yes, cancel it.
Yes, proceed with the cancellation.
Yes, change it back.
Yes, change it to blue.
Yes, make it two.
Yes, modify it to the large one.
Yes, with the black one instead.
Yes, use my gift card.
Yes, use the other card.
Yes, charge my PayPal.
Yes, I confirm the payment.
Yes, proceed with the changes to my address.
Yes, and change my address too.
""",
    ),
    "address": (
        ADDRESS,
        """
Yes, change my name.
Yes, change the order.
Yes, change the items.
Yes, change it for all orders.
Yes, and my default address too.
Yes, change the billing address.
Yes, change the email address.
Yes, but the zip code is wrong.
Yes, update the payment method.
Yes, proceed with the cancellation.
""",
    ),
    "return": (
        RETURN,
        """
Yes, return the item.
Yes, return only the lamp.
Yes, return the order.
Yes, exchange it.
Yes, refund it.
Yes, proceed with the exchange.
Yes, cancel the return.
Yes, return to the previous step.
Yes, return it to my friend.
Yes, proceed with the refund.
""",
    ),
    "refund": (
        REFUND,
        """
Yes, refund everything.
Yes, refund all of them.
Yes, refund my order.
Yes, refund the order.
Yes, refund it to my PayPal.
Yes, refund half.
Yes, refund 20 dollars.
Yes, pay it.
Yes, the refund should be 50.
Yes, proceed with the payment.
""",
    ),
    "book": (
        BOOK,
        """
Yes, book two.
Yes, book it for two.
Yes, book the flight.
Yes, book the hotel.
Yes, book the cheaper one.
Yes, book the return flight too.
Yes, cancel the booking.
Yes, proceed with the payment.
Yes, but with insurance.
Yes, in business class.
""",
    ),
    "delete": (
        DELETE,
        """
Yes, delete all tasks.
Yes, delete everything.
Yes, delete the tasks.
Yes, delete the list.
Yes, delete the other task.
Yes, delete the task and add milk.
Yes, add it.
Yes, complete it.
Yes, remove the lamp task.
Yes, remove the first task.
Yes, delete my account.
Yes, delete my tasks.
Yes, show them.
Yes, all of them.
Yes, both.
Yes to all.
Yes, them.
Yes, delete it twice.
Yes, undo it.
""",
    ),
    "send": (
        SEND,
        """
Yes, send it to Bob.
Yes, send it later.
Yes, send the emails.
Yes, send the report.
Yes, send a copy to me.
Yes, sign it and send it.
Yes, fix the typo and send it.
Yes, forward it.
Yes, reply.
Yes, delete the email.
Yes, send all of them.
""",
    ),
    "two_cancellations": (
        TWO_CANCELLATIONS,
        """
Yes, cancel it.
Yes, cancel that one.
Yes, cancel the first.
Yes, the first one.
Yes, cancel this order.
Yes, cancel the order.
Yes, that one.
Yes, only the second.
Yes, one of them.
Yes, both except the lamp.
Yes, but not the second.
Yes, cancel all three.
Yes, either.
Yes, cancel my order.
Yes, proceed with the cancellation of the first.
Cancel both.
Cancel all of them.
""",
    ),
    "cancel_and_return": (
        CANCEL_AND_RETURN,
        """
Yes, cancel both.
Yes, return both.
Yes, cancel it.
Yes, return it.
Yes, proceed with the cancellation.
Yes, proceed with the return.
Yes, the cancellation.
Yes, cancel the order.
Yes, the first.
Yes, do the second.
Yes, that one.
Yes, cancel all of them.
Yes, I confirm the return.
""",
    ),
    "three_returns": (
        THREE_RETURNS,
        """
Yes, return both.
Yes, both.
Yes, both of them.
Yes, return it.
Yes, the third.
Yes, the first two.
Yes, two of them.
Yes, all but one.
Yes, exchange all of them.
Yes, return the item.
Yes, that one.
""",
    ),
}
"""None is a yes to its actions."""

NO_YES_TO_ANY = """
Ja, aber nicht heute
Ja, morgen
ja oder nein?
Sì, ma non ora
はい、でも明日
네, 하지만 나중에
evet ama yarın
tamam mı?
ja, maar niet nu
tak, ale jutro
vâng, nhưng để mai
iya, tapi besok
بله، اما فردا
yes, that too?
yes, as well as the other
yes now what
yes very much not
yes please do not do this
yes, I approve of the idea
yes I confirm that I am Bob
I confirm my address
I confirm that it is broken
yes, go ahead with something else
yes go ahead with the other thing
proceed with caution
proceed with the next
yes to the first
yes to one of them
yes to this but no to that
please
please proceed with the other
process the other one
make the call
issue the invoice
yes, make it quick
yes, you can ask me later
you may not
you can forget it
all right then, no
yes, everything except that
yes, everything looks wrong
everything looks good but the price
yes, too expensive
too bad
yes, it is too much
as listed on the website
yes, as described by my friend
all
everything
them
yes, all good?
yes, these
yes, all of these except one
no, both
not both
yes both no
good, but wait
ok ok ok
ja ja
ja klar
ja, natürlich
sì certo
evet tabii
はいはい
네네
graag niet
doe maar niet
gern geschehen
in ordnung?
passt nicht
stimmt nicht
das stimmt nicht
nicht klar
va bene lo stesso
certo che no
お願いしません
進めないでください
진행하지 마세요
onaylamıyorum
olur mu
niet akkoord
nie zgadzam się
không đồng ý
tidak setuju
موافق نیستم
dobrze, ale nie
i would like to proceed with caution
i want to proceed with someone else
id like to proceed with the exchange of the item for a bigger one
yes, proceed with my refund request
yes, transfer me to an agent
yes, update me
yes, change my mind
yes, book me a taxi
yes, return my call
yes, send help
yes, add one more
yes, refund me
yes, exchange me
yes, pay later
yes, cancel culture
yes, modify nothing
yes, delete nothing
yes, send nothing
"""
"""None is a yes, whatever the actions are."""
