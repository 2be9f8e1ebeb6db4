"""`install.sh` of the archive: what it installs, refuses and removes."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "install.sh"
FILES = {
    "bin/profile": "program 1\n",
    "bin/sched": "program 2\n",
    "share/man/man1/profile.1": "page\n",
    "share/fish/vendor_completions.d/profile.fish": "completions\n",
}


def files_below(folder: Path):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


class InstallTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.prefix = Path(self.folder.name, "a prefix")

    def archive(self, files):
        archive = Path(tempfile.mkdtemp(dir=self.folder.name))
        for name, text in files.items():
            path = archive / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        script = archive / "install.sh"
        script.write_bytes(SCRIPT.read_bytes())
        script.chmod(0o755)
        return script

    def run_script(self, script, *arguments, **options):
        said = subprocess.run([script, *arguments], capture_output=True, text=True, **options)
        return said.returncode, said.stderr

    def installed(self):
        return {name: text for name, text in files_below(self.prefix).items() if "share/tandem/" not in name}

    def test_what_is_installed_is_removed_with_the_folders_that_it_needed(self):
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "bin/mine").write_text("mine\n")
        script = self.archive(FILES)
        self.assertEqual(self.run_script(script, self.prefix)[0], 0)
        self.assertEqual(self.installed(), {**FILES, "bin/mine": "mine\n"})
        listed = (self.prefix / "share/tandem/installed.txt").read_text().splitlines()
        self.assertEqual(sorted(line[66:] for line in listed), sorted(FILES))
        self.assertEqual(self.run_script(script, "--uninstall", self.prefix), (0, ""))
        self.assertEqual(files_below(self.prefix), {"bin/mine": "mine\n"})
        self.assertEqual([path.name for path in self.prefix.iterdir()], ["bin"])

    def test_a_newer_version_replaces_its_files_and_removes_those_that_it_no_longer_has(self):
        self.run_script(self.archive(FILES), self.prefix)
        newer = {"bin/profile": "program 3\n", "share/man/man1/profile.1": "page\n"}
        self.assertEqual(self.run_script(self.archive(newer), self.prefix)[0], 0)
        self.assertEqual(self.installed(), newer)

    def test_a_file_of_someone_else_stops_the_installation_before_it_begins(self):
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "bin/sched").symlink_to("/nowhere")
        code, said = self.run_script(self.archive(FILES), self.prefix)
        self.assertEqual(code, 2)
        self.assertIn(str(self.prefix / "bin/sched"), said)
        self.assertEqual(self.installed(), {})

    def test_a_changed_file_is_neither_replaced_nor_removed(self):
        script = self.archive(FILES)
        self.run_script(script, self.prefix)
        changed = self.prefix / "bin/profile"
        changed.write_text("changed\n")
        code, said = self.run_script(script, self.prefix)
        self.assertEqual((code, str(changed) in said), (2, True))
        code, said = self.run_script(script, "--uninstall", self.prefix)
        self.assertEqual((code, str(changed) in said), (0, True))
        self.assertEqual(files_below(self.prefix), {"bin/profile": "changed\n"})

    def test_a_list_that_names_files_outside_removes_none(self):
        script = self.archive(FILES)
        self.run_script(script, self.prefix)
        outside = self.prefix.parent / "outside"
        outside.write_text("mine\n")
        digest = subprocess.run(["sha256sum", outside], capture_output=True, text=True).stdout[:64]
        with open(self.prefix / "share/tandem/installed.txt", "a") as names:
            names.write(f"{digest}  ../outside\n")
        self.assertEqual(self.run_script(script, "--uninstall", self.prefix)[0], 0)
        self.assertEqual(outside.read_text(), "mine\n")

    def test_files_and_links_beside_the_installed_ones_stay(self):
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "share/tandem").mkdir(parents=True)
        mine = self.prefix.parent / "mine"
        mine.write_text("mine\n")
        (self.prefix / "bin/profile.new").write_text("mine\n")
        links = [self.prefix / name for name in ["bin/sched.new", "share/tandem/installed.txt.new"]]
        for link in links:
            link.symlink_to(mine)
        # Names of our own lists that lead elsewhere are replaced, and their ends stay.
        (self.prefix / "share/tandem/folders.txt").symlink_to(mine)
        script = self.archive(FILES)
        self.assertEqual(self.run_script(script, self.prefix)[0], 0)
        self.assertEqual(mine.read_text(), "mine\n")
        self.assertEqual((self.prefix / "bin/profile.new").read_text(), "mine\n")
        self.assertTrue(all(link.is_symlink() for link in links))
        installed = {path.name for path in (self.prefix / "bin").iterdir()}
        self.assertEqual(installed, {"profile", "sched", "profile.new", "sched.new"})
        listed = self.prefix / "share/tandem/installed.txt"
        self.assertEqual(listed.stat().st_mode & 0o777, 0o666 & ~self.umask())
        self.assertEqual(self.run_script(script, "--uninstall", self.prefix), (0, ""))
        self.assertEqual({path.name for path in (self.prefix / "bin").iterdir()}, {"profile.new", "sched.new"})

    @staticmethod
    def umask():
        mask = os.umask(0)
        os.umask(mask)
        return mask

    def test_permissions_are_those_of_the_archive(self):
        script = self.archive(FILES)
        (script.parent / "bin/profile").chmod(0o755)
        self.run_script(script, self.prefix)
        self.assertEqual((self.prefix / "bin/profile").stat().st_mode & 0o777, 0o755)

    def test_a_failure_leaves_folders_that_uninstall_removes(self):
        script = self.archive(FILES)
        # The copy of the second file fails.
        stand_in = Path(self.folder.name, "path/cp")
        stand_in.parent.mkdir()
        stand_in.write_text('#!/bin/sh\ncase "$3" in */bin/sched) exit 1 ;; esac\nexec /bin/cp "$@"\n')
        stand_in.chmod(0o755)
        path = {**os.environ, "PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
        self.assertNotEqual(self.run_script(script, self.prefix, env=path)[0], 0)
        self.assertEqual(self.installed(), {"bin/profile": FILES["bin/profile"]})
        self.assertEqual(self.run_script(script, "--uninstall", self.prefix), (0, ""))
        self.assertEqual(list(self.prefix.iterdir()), [])

    def test_a_search_path_of_folders_does_not_matter(self):
        script = self.archive(FILES)
        elsewhere = Path(self.folder.name, "elsewhere")
        (elsewhere / script.parent.name).mkdir(parents=True)
        options = {"cwd": self.folder.name, "env": {**os.environ, "CDPATH": str(elsewhere)}}
        said = self.run_script(Path(script.parent.name, "install.sh"), self.prefix, **options)
        self.assertEqual(said[0], 0, said[1])
        self.assertEqual(self.installed(), FILES)

    def test_nothing_is_removed_where_nothing_was_installed(self):
        self.prefix.mkdir()
        self.assertEqual(self.run_script(self.archive(FILES), "--uninstall", self.prefix)[0], 2)


if __name__ == "__main__":
    unittest.main()
