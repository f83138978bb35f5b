"""The model-based test, bounded; `tests.runlog.attempts.model_based` is the long one."""

from tests.runlog.attempts.model_based import take_steps


def test_the_log_agrees_with_the_oracle_after_every_step():
    take_steps(40, 40)
