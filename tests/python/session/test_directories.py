import pytest

from teraio.directories import file_system_type, ssd_directories
from teraio.errors import Error


def test_one_directory_may_be_given_without_a_list(tmp_path):
    assert ssd_directories(tmp_path) == [tmp_path.resolve()]
    assert ssd_directories(str(tmp_path)) == [tmp_path.resolve()]


def test_order_is_kept_and_links_are_followed(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("b")
    root = tmp_path.resolve()
    assert ssd_directories([tmp_path / "link", tmp_path / "a"]) == [root / "b", root / "a"]
    with pytest.raises(Error, match="given twice"):
        ssd_directories([tmp_path / "link", tmp_path / "b"])


def test_default_is_under_the_cache_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ssd_directories() == ssd_directories([]) == [tmp_path.resolve() / "teraio" / "ssd"]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert ssd_directories() == [tmp_path.resolve() / "home" / ".cache" / "teraio" / "ssd"]


def test_default_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "teraio").write_text("a file in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Error, match="no cache directory.*File exists.*set XDG_CACHE_HOME"):
        ssd_directories()


def test_check_leaves_no_file(tmp_path):
    ssd_directories([tmp_path])
    assert list(tmp_path.iterdir()) == []


def test_file_system_types():
    assert file_system_type("/proc") == "proc"
    assert file_system_type("/dev/shm") == "tmpfs"
