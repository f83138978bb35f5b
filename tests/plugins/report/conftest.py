"""The command line and a small project, as the tests of the command line have them."""

from tests.cli.conftest import logdriven, new_shop, shop

__all__ = ["logdriven", "new_shop", "shop"]
