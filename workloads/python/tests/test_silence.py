"""The effects of the hook on the program and its children, and the processes that report nothing."""

import contextlib
import fcntl
import os
import struct
import subprocess
import unittest

from harness import Launch
from grant_page import origin

TRAINING = """
import torch
optimizer = torch.optim.SGD()
for _ in range(5): optimizer.step()
"""
SAID = ["hello", "ready"] + ["step"] * 4 + ["finished"]


class ProgramTest(unittest.TestCase):
    def same_without_us(self, program: str, sitecustomize: str = "") -> None:
        """Runs a program with the hook and without it, both times with this `sitecustomize` on the path."""
        with Launch() as launch:
            if sitecustomize:
                (launch.folder / "more").mkdir()
                (launch.folder / "more" / "sitecustomize.py").write_text(sitecustomize)
                launch.environment["PYTHONPATH"] += ":" + str(launch.folder / "more")
            ours = launch.run(program)
            launch.environment["PYTHONPATH"] = launch.environment["PYTHONPATH"].split(":", 1)[1]
            theirs = launch.run(program)
            for what in ("returncode", "stdout", "stderr"):
                self.assertEqual(getattr(ours, what), getattr(theirs, what), what)

    def test_its_search_path_and_its_modules_are_its_own(self):
        self.same_without_us(
            "import sys\nprint(sys.path, [name for name in sys.modules if 'torch' in name])\n"
            "import torch.optim.optimizer as ours\nprint(type(ours.__loader__), ours.__spec__.loader is ours.__loader__)"
        )

    def test_a_sitecustomize_behind_ours_is_run(self):
        program = "import sys\nprint(sys.path)\nimport sitecustomize\nprint(sitecustomize.here)"
        for text in ("print('theirs')", "import sys; sys.path.append('/theirs'); here = 1", "import nowhere", "1/0"):
            with self.subTest(text):
                self.same_without_us(program, text)

    def test_it_fails_as_it_does_alone(self):
        exits = ("import sys; sys.exit(7)", "import os; os._exit(9)")
        for last in (*exits, "1/0", "optimizer.step(lambda: 1/0)", "import torch.nowhere"):
            with self.subTest(last):
                self.same_without_us(TRAINING + last)

    def test_whatever_is_wrong_with_our_files_it_runs(self):
        pages = ("no page", "a short page", "a page that can be truncated", "a pipe as the page")
        for harm in ("no events", *pages, "no folder", "a rank of words", "a hook that is cut off"):
            with self.subTest(harm), Launch() as launch:
                if harm == "no events":
                    launch.environment["TANDEM_EVENTS"] = "/nowhere/0001-cmd.0.jsonl"
                elif harm in pages:
                    launch.page.unlink()
                    if harm == "a short page":
                        launch.page.write_bytes(b"7")
                    elif harm == "a page that can be truncated":
                        launch.page.write_bytes(b"\xff" * 4096)
                    elif harm == "a pipe as the page":
                        os.mkfifo(launch.page)
                elif harm == "no folder":
                    launch.environment["TANDEM_EVENTS"] = str(launch.folder)
                elif harm == "a rank of words":
                    launch.environment["RANK"] = "first"
                else:
                    (launch.hook / "tandem_hook" / "job.py").write_text("import nowhere")
                ended = launch.run(TRAINING + "print('done')")
                self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "done\n", ""))
                self.assertEqual(launch.names(), [])
                self.assertEqual("ungated" in launch.notes(), harm in pages)

    def test_a_page_that_is_not_that_of_its_harness_gates_nothing(self):
        own = origin()
        elsewhere = {
            "zeros": (b"", 4096),
            "text": (b"many steps, many words " * 200, 4096),
            "a longer page": (own, 8192),
            "a short page": (own, 72),
            "another boot": (own[:8] + bytes([own[8] ^ 1]) + own[9:], 4096),
            "another pid namespace": (own[:-8] + struct.pack("=Q", 7), 4096),
        }
        for what, (after, size) in elsewhere.items():
            with self.subTest(what), Launch() as launch:
                page = os.memfd_create("other", os.MFD_ALLOW_SEALING)
                os.write(page, (struct.pack("=Q", 1) + after)[:size])
                os.truncate(page, size)
                fcntl.fcntl(page, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
                launch.page.unlink()
                launch.page.symlink_to("/proc/%d/fd/%d" % (os.getpid(), page))
                ended = launch.run(TRAINING + "print('done')")
                os.close(page)
                self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "done\n", ""))
                self.assertEqual((launch.names(), launch.notes()), ([], ["loaded", "ungated"]))

    def test_in_another_pid_namespace_the_page_is_not_that_of_its_harness(self):
        namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
        if subprocess.run([*namespace, "true"], capture_output=True).returncode != 0:
            self.skipTest("this machine makes no pid namespaces")
        with Launch(granted=1) as launch:
            script = launch.folder / "inside.py"
            script.write_text(TRAINING + "print('done')")
            arguments = [*namespace, launch.python, str(script)]
            ended = subprocess.run(arguments, env=launch.environment, capture_output=True, text=True)
            self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "done\n", ""))
            self.assertEqual((launch.names(), launch.notes()), ([], ["loaded", "ungated"]))

    def test_a_hook_that_cannot_go_on_says_so_and_lets_go(self):
        sabotage = "import sys\nsys.modules['tandem_hook.job'].Job._say_completed = None\n"
        with Launch(granted=4) as launch:
            program = TRAINING.replace("for", "optimizer.step()\n" + sabotage + "for").replace("(5)", "(50)")
            ended = launch.run(program + "print('done')")
            self.assertEqual((ended.stdout, ended.stderr), ("done\n", ""))
            name, failed = launch.events()[-1]
            self.assertEqual((name, failed["kind"]), ("failed", "internal"))
            self.assertIn("the hook: TypeError: ", failed["error"])

    def test_without_our_variables_nothing_is_put_into_it(self):
        for name in ("TANDEM_EVENTS", "TANDEM_CONTROL"):
            with Launch() as launch:
                del launch.environment[name]
                ended = launch.run(TRAINING + "import sys\nprint('tandem_hook' in sys.modules)")
                self.assertEqual((ended.stdout, ended.stderr, launch.names()), ("False\n", "", []))

    def test_a_program_without_torch_is_not_spoken_for(self):
        with Launch(fake=False) as launch:
            launch.run("print(1)")
            self.assertEqual(launch.names(), [])


class ChildrenTest(unittest.TestCase):
    def test_a_forked_child_has_no_word(self):
        program = TRAINING + """
import os, sys
child = os.fork()
if child == 0:
    for _ in range(5): optimizer.step()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
optimizer.step()
"""
        with Launch() as launch:
            self.assertEqual(launch.run(program).stderr, "")
            self.assertEqual(launch.names(), SAID[:-1] + ["step", "finished"])
            self.assertEqual(launch.notes(), ["loaded", "unheard"])

    def test_a_forked_child_that_trains_in_the_parents_stead_speaks(self):
        for leave in ("sys.exit()", "os._exit(0)"):
            program = "import os, sys, torch\nif os.fork(): os.wait()\nelse:\n" + TRAINING.replace("\n", "\n    ") + leave
            with self.subTest(leave), Launch() as launch:
                self.assertEqual(launch.run(program).stderr, "")
                self.assertEqual(launch.names(), SAID if leave == "sys.exit()" else SAID[:-1])

    def test_children_of_multiprocessing_load_data_in_silence(self):
        for method in ("fork", "spawn", "forkserver"):
            program = """
import multiprocessing, torch
def load(number): return number * number
if __name__ == "__main__":
    optimizer = torch.optim.SGD()
    with multiprocessing.get_context("%s").Pool(2) as loaders:
        for batch in loaders.imap(load, range(5)): optimizer.step()
""" % method
            with self.subTest(method), Launch() as launch:
                self.assertEqual(launch.run(program).stderr, "")
                self.assertEqual(launch.names(), SAID)
                self.assertEqual(set(launch.notes()), {"loaded"})

    def test_one_of_two_programs_speaks(self):
        program = TRAINING + "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r], check=True)\n" % TRAINING
        with Launch() as launch:
            self.assertEqual(launch.run(program).stderr, "")
            self.assertEqual(launch.names(), SAID, "the child, while its parent lives")
            self.assertEqual(launch.run(TRAINING).stderr, "")
            self.assertEqual(launch.names(), SAID, "another, after it")
            self.assertEqual(launch.notes(), ["loaded", "loaded", "unheard", "loaded", "unheard"])

    def test_a_launcher_that_does_not_train_leaves_it_to_its_child(self):
        program = "import torch, subprocess, sys\nsubprocess.run([sys.executable, '-c', %r], check=True)\n" % TRAINING
        with Launch() as launch:
            self.assertEqual(launch.run(program).stderr, "")
            self.assertEqual(launch.names(), SAID)


class RankTest(unittest.TestCase):
    def test_each_rank_has_its_file(self):
        joined = "import torch.distributed\ntorch.distributed.rank, torch.distributed.world_size = 3, 4\n"
        for program, variables, rank, ranks in (
            (TRAINING, {}, 0, None),
            (TRAINING, {"RANK": 0, "WORLD_SIZE": 2}, 0, 2),
            (TRAINING, {"RANK": 12, "LOCAL_RANK": 4, "WORLD_SIZE": 16}, 12, 16),
            (TRAINING, {"WORLD_SIZE": "many"}, 0, None),
            (joined + TRAINING, {}, 3, 4),
            (joined + TRAINING, {"RANK": 1, "WORLD_SIZE": 2}, 3, 4),
        ):
            with self.subTest(variables), Launch() as launch:
                launch.run(program, **variables)
                self.assertEqual(launch.names(rank), SAID)
                (_, hello), *_ = launch.events(rank)
                self.assertEqual(hello.get("ranks"), ranks)
                self.assertEqual(len(list(launch.folder.glob("*.jsonl"))), 1 + (rank > 0))

    def test_ranks_rest_at_the_same_step(self):
        with Launch(granted=4) as launch, contextlib.ExitStack() as programs:
            ranks = [programs.enter_context(launch.start(TRAINING, RANK=rank, WORLD_SIZE=3)) for rank in range(3)]
            for rank, process in enumerate(ranks):
                launch.wait_for(("held", {"index": 4}), process, rank)
            launch.grant(9)
            for process in ranks:
                self.assertEqual(process.communicate(), ("", ""))
            for rank in range(3):
                self.assertEqual(launch.names(rank), SAID[:-2] + ["held"] + SAID[-2:])


class EndTest(unittest.TestCase):
    def test_an_uncaught_exception_is_the_end(self):
        for last, kind in (
            ("raise MemoryError", "out-of-memory"),
            ("raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB')", "out-of-memory"),
            ("raise RuntimeError('CUDA error: out of memory')", "out-of-memory"),
            ("raise RuntimeError(\"DefaultCPUAllocator: can't allocate memory: you tried\")", "out-of-memory"),
            ("raise RuntimeError('tokenizer ran out of memory slots in prompt cache')", "internal"),
            ("raise ValueError('CUDA out of memory')", "internal"),
            ("raise torch.distributed.DistBackendError('a rank is gone')", "collective"),
            ("raise RuntimeError('[gloo/transport/tcp/pair.cc:544] Connection closed by peer')", "collective"),
            ("raise ValueError('\"quoted\"\\n\\x00')", "internal"),
            ("assert False, 'x' * 10000", "internal"),
        ):
            with self.subTest(last), Launch() as launch:
                self.assertEqual(launch.run(TRAINING + last).returncode, 1)
                name, failed = launch.events()[-1]
                self.assertEqual((name, failed["kind"]), ("failed", kind))
                self.assertLessEqual(len(failed["error"]), 300)

    def test_what_is_no_exception_is_no_failure(self):
        for last, said in (("sys.exit(3)", True), ("os._exit(3)", False), ("os.kill(os.getpid(), 9)", False)):
            with self.subTest(last), Launch() as launch:
                launch.run(TRAINING + "import os, sys\n" + last)
                self.assertEqual(launch.names(), SAID if said else SAID[:-1])


if __name__ == "__main__":
    unittest.main()
