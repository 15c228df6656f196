from tests.chat.conftest import clock, each_environment  # noqa: F401 (fixtures)
