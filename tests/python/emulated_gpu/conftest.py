"""Programs with sessions on the emulated GPU: their texts begin with emulated_gpu.SESSIONS."""

import emulated_gpu
import pytest


@pytest.fixture
def with_sessions(program):
    """Runs the text of a program with success; gives the lines it prints."""
    return lambda text, **settings: program(emulated_gpu.SESSIONS + text, **settings)


@pytest.fixture
def outcome_with_sessions(on_gpu, tmp_path):
    """Runs the text of a program; gives its exit code, stdout and stderr."""

    def outcome_with_sessions(text, *arguments, **settings):
        (tmp_path / "program.py").write_text(emulated_gpu.SESSIONS + text)
        return on_gpu(tmp_path / "program.py", *arguments, **settings)

    return outcome_with_sessions
