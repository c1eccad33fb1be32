"""All tasks by name."""

from __future__ import annotations

from benchmarks.training.tasks import images, recommendations, text_long, text_lstm, text_transformer
from benchmarks.training.tasks.task import Task

__all__ = ["TASKS"]

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        *(text_lstm.TASK, images.TASK, text_transformer.TASK, recommendations.TASK),
        text_long.TASK,
        *(images.LONG, images.LARGE, images.ADAM, *images.WORKERS, *images.OWNERS, *text_lstm.WORKERS),
    )
}
