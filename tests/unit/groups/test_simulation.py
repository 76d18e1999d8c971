"""Groups under accidents: what members are told is never contradictory, and in the end all is well."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.seeds import seeds
from tests.unit.groups.world import World

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
        accepted = rejected = 0
        for seed in seeds(60):
            world = World(seed, groups=2, processes=3)
            world.turn(FAULTY_SECONDS)
            world.heal()
            self.settle(world, seed)
            world.check_disk()
            self.assertEqual(world.problems, [], f"seed {seed}")
            accepted += world.accepted
            rejected += world.rejected
        self.assertGreater(accepted, 0, "commits were tried")
        self.assertGreater(rejected, 0, "some of them in vain")

    def settle(self, world: World, seed: int) -> None:
        for _ in range(PATIENCE_SECONDS):
            world.turn(1)
            if world.is_settled():
                return
        self.fail(f"seed {seed}: not all groups have become stable")
