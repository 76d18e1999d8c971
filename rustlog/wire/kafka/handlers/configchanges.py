"""
AlterConfigs and IncrementalAlterConfigs: settings of topics.  Those of the broker are fixed while it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from twisted.internet.defer import Deferred

from rustlog.errors import InvalidSetting
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, Refused, code_for, message_for
from rustlog.wire.kafka.handlers.gathering import Fields, answer_each, repeated
from rustlog.wire.kafka.handlers.resources import Resource, ResourceType, check_broker, check_kind
from rustlog.wire.kafka.schema import Entity

ALTER_CONFIGS = 33
INCREMENTAL_ALTER_CONFIGS = 44

Changes = dict[str, object]
"""Values by name; C{None} removes one."""


class Operation(IntEnum):
    """Kafka's numbers for what to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def alter_configs(call: Call) -> Deferred[Entity]:
    """Replace all that is set for a topic."""
    return _alter(call, _replacement)


def incremental_alter_configs(call: Call) -> Deferred[Entity]:
    """Change some of what is set for a topic."""
    return _alter(call, _increment)


def _alter(call: Call, changes_of: Callable[[Call, str, Any], Changes]) -> Deferred[Entity]:
    twice = repeated(map(_named, call.request.resources))

    def answer(item: Any) -> Deferred[Fields]:
        resource = _named(item)
        _, name = resource
        if resource in twice:
            raise Refused(ErrorCode.invalid_request, f"the request names {name!r} more than once")
        _check(call, resource, item.configs)
        changes = changes_of(call, name, item.configs)
        configured = call.services.broker.configure_topic(
            call.context, name, changes, call.request.validate_only
        )
        return configured.addCallback(lambda _: _shown(resource))

    def refuse(item: Any, error: Exception) -> Fields:
        return {**_shown(_named(item)), "error_code": code_for(error), "error_message": message_for(error)}

    altered = answer_each(call.request.resources, answer, refuse)
    return altered.addCallback(lambda answers: call.respond(responses=answers))


def _named(item: Any) -> Resource:
    return item.resource_type, item.resource_name


def _shown(resource: Resource) -> Fields:
    kind, name = resource
    return {"resource_type": kind, "resource_name": name}


def _check(call: Call, resource: Resource, configs: Any) -> None:
    """Refuse what is no topic, and what names a setting twice."""
    check_kind(resource)
    kind, name = resource
    if kind == ResourceType.BROKER:
        check_broker(call, name)
        raise Refused(
            ErrorCode.invalid_request,
            "the settings of the broker are fixed while it runs; --set, or the configuration file, says them",
        )
    keys = repeated(each.name for each in configs)
    if keys:
        raise Refused(ErrorCode.invalid_request, f"set more than once: {', '.join(sorted(map(str, keys)))}")


def _value(config: Any) -> str:
    if config.value is None:
        raise Refused(ErrorCode.invalid_request, f"{config.name} has no value")
    return str(config.value)


def _replacement(call: Call, name: str, configs: Any) -> Changes:
    gone: Changes = dict.fromkeys(call.services.broker.topic(call.context, name).config)
    return {**gone, **{each.name: _value(each) for each in configs}}


# -- one by one ------------------------------------------------------------------------


def _increment(call: Call, name: str, configs: Any) -> Changes:
    settings = call.services.broker.administration.topic_settings(call.context, name)
    current = {each.setting.name: each for each in settings}
    return {each.name: _new_value(each, current.get(each.name)) for each in configs}


def _new_value(config: Any, current: Any) -> str | None:
    """What a setting becomes; C{None} removes what is set."""
    number = config.config_operation
    if number not in set(Operation):
        raise Refused(ErrorCode.invalid_request, f"{config.name}: there is no operation {number}")
    operation = Operation(number)
    if operation is Operation.DELETE:
        return None
    value = _value(config)
    if operation is Operation.SET or current is None:  # What is unknown will be refused as such.
        return value
    if not current.setting.is_list:
        raise InvalidSetting(config.name, f"it is not a list, so there is no {operation.name.lower()}")
    return _with(_words(current.value), _words(value), operation)


def _with(words: list[str], others: list[str], operation: Operation) -> str:
    if operation is Operation.APPEND:
        return ",".join(dict.fromkeys([*words, *others]))
    return ",".join(each for each in words if each not in others)


def _words(value: str) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()]


APIS = (
    Api(ALTER_CONFIGS, "AlterConfigs", 0, 2, alter_configs),
    Api(INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, incremental_alter_configs),
)
