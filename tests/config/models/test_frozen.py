"""Models share the set of their given fields; copies do not."""

from logdriven_dagster.config.models.settings import Settings


def test_models_with_the_same_given_fields_share_one_set() -> None:
    first, second = Settings(priority=1, retries=2), Settings(retries=3, priority=4)
    assert first.model_fields_set is second.model_fields_set == {"priority", "retries"}


def test_a_copy_changes_the_given_fields_of_no_other_model() -> None:
    settings = Settings(priority=1)
    changed = settings.model_copy(update={"retries": 2})
    changed.model_fields_set.discard("priority")
    assert changed.model_fields_set == {"retries"}
    assert Settings(priority=3).model_fields_set == settings.model_fields_set == {"priority"}
