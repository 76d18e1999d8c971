"""Groups under accidents: what members are told is never contradictory, and in the end all is well."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.seeds import seeds
from tests.unit.groups.world import World
from tests.unit.offsets.stores import FileStores, TopicStores

FAULTY_SECONDS = 60
PATIENCE_SECONDS = 120
"""How long it may take until all groups are stable, after the last accident."""


class SimulationTests(SynchronousTestCase):
    """Slow and broken connections, deaths, and losses of power."""

    def test_accidents(self) -> None:
        """
        In one generation a partition has one owner; commits of old generations are refused, and none goes to
        another group; when accidents end, all groups become stable.
        """
        worlds = [self.live(seed) for seed in seeds(100)]
        self.assertGreater(sum(each.accepted for each in worlds), 0, "commits were tried")
        self.assertGreater(sum(each.rejected for each in worlds), 0, "some of them in vain")

    def test_file(self) -> None:
        """The same with the store C{file}, on a simulated disk."""
        for seed in seeds(20):
            self.live(seed, FileStores())

    def test_topic(self) -> None:
        """The same with the store C{topic}, over segments on a simulated disk."""
        for seed in seeds(20):
            self.live(seed, TopicStores())

    def live(self, seed: int, stores: Any = None) -> World:
        world = World(seed, groups=2, processes=3, stores=stores)
        world.turn(FAULTY_SECONDS)
        world.heal()
        self.settle(world, seed)
        world.check_disk()
        self.assertEqual(world.problems, [], f"seed {seed}")
        return world

    def settle(self, world: World, seed: int) -> None:
        for _ in range(PATIENCE_SECONDS):
            world.turn(1)
            if world.is_settled():
                return
        self.fail(f"seed {seed}: not all groups have become stable")
