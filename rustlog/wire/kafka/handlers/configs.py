"""
DescribeConfigs and ListConfigResources: what is set, and where that comes from.
"""

from __future__ import annotations

from typing import Any

from rustlog.administration import DescribedSetting, SettingSource
from rustlog.errors import RustlogError
from rustlog.settings import Setting
from rustlog.wire.kafka.calls import Api, Call
from rustlog.wire.kafka.errors import ErrorCode, code_for, message_for
from rustlog.wire.kafka.fields import nested_class
from rustlog.wire.kafka.handlers.gathering import Fields
from rustlog.wire.kafka.handlers.resources import Resource, ResourceType, check_broker, check_kind
from rustlog.wire.kafka.schema import Entity, make, response_class

DESCRIBE_CONFIGS = 32
LIST_CONFIG_RESOURCES = 74

_SOURCES = {SettingSource.TOPIC: 1, SettingSource.BROKER: 4, SettingSource.DEFAULT: 5}

_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7
_TYPES = {bool: _BOOLEAN, float: _DOUBLE, str: _STRING}

_INT_MAX = 2**31 - 1


# -- DescribeConfigs -------------------------------------------------------------------


def describe_configs(call: Call) -> Entity:
    """
    All settings of topics and of the broker, or those that are asked for.

    Each resource is answered once, even if it is asked for a thousand times: the answer is large.
    """
    wanted: dict[Resource, Any] = {
        (each.resource_type, each.resource_name): each.configuration_keys for each in call.request.resources
    }
    configs = _Configs(call)
    results = [_describe(call, configs, resource, keys) for resource, keys in wanted.items()]
    return call.respond(results=results)


def _describe(call: Call, configs: _Configs, resource: Resource, keys: Any) -> Fields:
    resource_type, name = resource
    result: Fields = {"resource_type": resource_type, "resource_name": name, "configs": ()}
    try:
        settings = _settings(call, resource)
    except RustlogError as error:
        return {**result, "error_code": code_for(error), "error_message": message_for(error)}
    chosen = set(keys or ())
    result["configs"] = [
        configs.item(each) for each in settings if not chosen or each.setting.name in chosen
    ]
    return result


def _settings(call: Call, resource: Resource) -> tuple[DescribedSetting, ...]:
    check_kind(resource)
    kind, name = resource
    administration = call.services.broker.administration
    if kind == ResourceType.TOPIC:
        return administration.topic_settings(call.context, name)
    # Nothing is set for all brokers at once, which is what a broker without a name stands for.
    return administration.broker_settings(call.context) if check_broker(call, name) else ()


class _Configs:
    """
    Makes the items of one response.

    Most settings of most topics have their default, and are described by the same object: of that, the same
    item is made only once.  Tools like to ask for the settings of all topics.
    """

    def __init__(self, call: Call) -> None:
        self._class = nested_class(response_class(call.api.key, call.version), "results", "configs")
        self._has_synonyms = call.request.include_synonyms
        self._is_documented = getattr(call.request, "include_documentation", False)
        self._made: dict[int, tuple[DescribedSetting, Entity]] = {}

    def item(self, described: DescribedSetting) -> Entity:
        known = self._made.get(id(described))
        if known is None:
            # With the object, so that no other can have its id.
            known = self._made[id(described)] = described, self._make(described)
        return known[1]

    def _make(self, described: DescribedSetting) -> Entity:
        return make(
            self._class,
            **created_config(described),
            synonyms=_synonyms(described) if self._has_synonyms else (),
            config_type=_config_type(described.setting),
            documentation=described.setting.doc if self._is_documented else None,
        )


def created_config(described: DescribedSetting) -> Fields:
    """What is said of a setting in answers to DescribeConfigs and to CreateTopics."""
    return {
        "name": described.setting.name,
        "value": described.value,
        "read_only": described.is_read_only,
        "config_source": _SOURCES[described.source],
        "is_sensitive": False,
    }


def _synonyms(described: DescribedSetting) -> list[Fields]:
    return [
        {"name": described.setting.name, "value": value, "source": _SOURCES[source]}
        for source, value in described.said
    ]


def _config_type(setting: Setting) -> int:
    if setting.is_list:
        return _LIST
    if setting.type is int:
        return _INT if setting.maximum is not None and setting.maximum <= _INT_MAX else _LONG
    return _TYPES[setting.type]


# -- ListConfigResources ---------------------------------------------------------------


def list_config_resources(call: Call) -> Entity:
    """
    What has settings, of the kinds that are asked for, or of all.  In version 0 only client metrics are, of
    which there are none.
    """
    kinds = set(getattr(call.request, "resource_types", (ResourceType.CLIENT_METRICS,)))
    if not kinds <= set(ResourceType):
        return call.respond(error_code=ErrorCode.unsupported_version, config_resources=())
    found: list[Resource] = []
    if not kinds or ResourceType.TOPIC in kinds:
        topics = call.services.broker.topics(call.context)
        found += [(ResourceType.TOPIC, each.name) for each in topics]
    if not kinds or ResourceType.BROKER in kinds:
        found.append((ResourceType.BROKER, str(call.services.node_id)))
    resources = [{"resource_type": int(kind), "resource_name": name} for kind, name in found]
    return call.respond(config_resources=resources)


APIS = (
    Api(DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, describe_configs),
    Api(LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, list_config_resources),
)
