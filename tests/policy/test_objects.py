"""Which calls are certainly about different objects."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.policy.objects import named_objects

UUID = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"


def apart(earlier: dict[str, Any], later: dict[str, Any], result: Any = None, **formats: str) -> bool:
    """Return True if it is certain that two calls are about different objects; `formats` are those of arguments."""
    schema = {"properties": {name: {"type": "string", "format": value} for name, value in formats.items()}}
    return named_objects(schema, earlier, result).are_others_than(named_objects(schema, later))


@pytest.mark.parametrize(
    ("earlier", "later", "result"),
    [
        ({"task_id": "t1", "description": "x"}, {"task_id": "t2"}, None),
        ({"taskId": 1}, {"task_ids": [2, 3]}, None),
        ({"id": 1}, {"id": 2}, None),
        ({"path": "/a/b.txt"}, {"path": "/a/c.txt"}, None),
        ({"url": "https://a.test/1"}, {"url": "https://a.test/2"}, None),
        # The subject is shared, and the objects are not.
        ({"mail_id": 1, "subject": "Task"}, {"mail_id": 2, "subject": "Task"}, None),
        # What a call has created names itself in its result.
        ({"description": "x"}, {"task_id": "t9"}, {"task": {"id": "t1", "user_id": "ann"}}),
        ({"user_id": "ann", "note_id": 1}, {"user_id": "ann", "note_id": 2}, None),
    ],
)
def test_calls_with_other_ids_are_about_other_objects(earlier: dict[str, Any], later: dict[str, Any], result: Any) -> None:
    assert apart(earlier, later, result)


@pytest.mark.parametrize(
    ("earlier", "later", "result"),
    [
        ({"task_id": "t1"}, {"task_id": "t1"}, None),
        ({"task_id": "t1"}, {"task_id": " T1 "}, None),
        ({"id": 7}, {"id": "#7"}, None),
        ({"id": UUID}, {"id": "{6f9619ff8b86d011b42d00cf4fc964ff}"}, None),
        ({"ids": [1, 2]}, {"id": 2}, None),
        ({"task": {"id": 1}}, {"task_id": 1}, None),
        # The id stands under another name, or in the result.
        ({"task_id": 1}, {"task_id": 2, "merge_with": 1}, None),
        ({"task_id": 2, "merge_with": 1}, {"task_id": 1}, None),
        ({"title": "rent"}, {"task_id": "t1"}, {"task": {"id": "t1"}}),
        # A folder and what is in it, however it is written.
        ({"path": "/a/b.txt"}, {"path": "/a"}, None),
        ({"path": "/a"}, {"path": "/a/./b/../b.txt"}, None),
        ({"path": "/a/b c.txt"}, {"path": "file:///a/b%20c.txt"}, None),
        ({"path": "/srv/b.txt"}, {"path": "b.txt"}, None),
        ({"path": "../b.txt"}, {"path": "/c.txt"}, None),
        # Nothing tells them apart.
        ({"to": "a@example.com", "subject": "Task"}, {"to": "b@example.com", "subject": "Task"}, None),
        ({"title": "rent", "new_title": "spam"}, {"task_id": "t1"}, None),
        ({"task_id": "t1"}, {"list_id": "l1"}, None),
        ({"filter": "overdue"}, {"task_id": "t1"}, {"job_id": "j1"}),
        ({}, {}, None),
        ({"task_id": "t1"}, {"task_id": "t2"}, [{"id": number} for number in range(2_000)]),
    ],
)
def test_calls_that_may_be_about_the_same_object_are_not_told_apart(
    earlier: dict[str, Any], later: dict[str, Any], result: Any
) -> None:
    assert not apart(earlier, later, result)


def test_the_format_of_an_argument_makes_it_an_id() -> None:
    other = UUID.replace("6F", "7F")
    assert not apart({"order": UUID}, {"order": other})
    assert apart({"order": UUID}, {"order": other}, order="uuid")
    assert apart({"page": "https://a.test/1"}, {"page": "https://a.test/2"}, page="uri")


def test_the_argument_that_is_the_signed_in_user_names_no_object() -> None:
    earlier = named_objects({}, {"owner_id": "ann", "text": "x"}, without={"owner_id"})
    later = named_objects({}, {"owner_id": "ann", "note_id": 1}, without={"owner_id"})
    assert not earlier.are_others_than(later)
    assert "ann" not in later.arguments
