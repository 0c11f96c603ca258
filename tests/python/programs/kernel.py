"""Runs notebooks in a real kernel."""

from nbclient import NotebookClient


class _Client(NotebookClient):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.states = []

    def process_message(self, message, cell, cell_index):
        html = message["content"].get("data", {}).get("text/html", "")
        if message["msg_type"] == "update_display_data" and "TERAIO" in html:
            self.states.append(message["content"]["data"])
        return super().process_message(message, cell, cell_index)


def panel_states(notebook, folder):
    """Runs the cells of a notebook in a folder. Returns the states of the panel meanwhile."""
    client = _Client(notebook, timeout=600, resources={"metadata": {"path": folder}})
    client.execute()
    return client.states
