"""The record of finished tasks."""

import os

from doit.dependency import JsonDB


class StateFile(JsonDB):
    """The JSON file of doit with finished tasks, written after each task.

    doit itself writes it when a run ends, so that a run that is killed would lose everything. The
    file is replaced as a whole and is therefore complete at any time.
    """

    def set(self, task_id, dependency, value):
        super().set(task_id, dependency, value)
        if dependency == "deps:":  # the last item that doit records of a task
            self.dump()

    def dump(self):
        path, self.name = self.name, f"{self.name}.partial"
        try:
            super().dump()
            os.replace(self.name, path)
        finally:
            self.name = path
