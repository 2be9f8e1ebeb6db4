"""A CUDA graph that has captured an optimizer's step takes that step at every replay, without calling the optimizer."""

import functools
import weakref

from tandem_hook.ending import is_of_program


class Graphs:
    def __init__(self):
        self._captured = []
        self._held = weakref.WeakKeyDictionary()
        """The optimizers of each graph, as weak references that do not keep their state in memory."""

    def capture(self, optimizer) -> None:
        """Notes that the graph under capture contains a step of the optimizer."""
        self._captured.append(weakref.ref(optimizer))

    def watch(self, graph_class, ended) -> None:
        """Calls `ended` after each replay, for each optimizer with a step in the graph."""
        capture_end, replay = graph_class.capture_end, graph_class.replay

        @functools.wraps(capture_end)
        def watched_capture_end(graph, *arguments, **keywords):
            try:
                self._keep(graph)
            except BaseException as error:
                if is_of_program(error):
                    raise
            return capture_end(graph, *arguments, **keywords)

        @functools.wraps(replay)
        def watched_replay(graph, *arguments, **keywords):
            result = replay(graph, *arguments, **keywords)
            try:
                optimizers = self._optimizers_of(graph)
            except BaseException as error:
                if is_of_program(error):
                    raise
                return result
            for optimizer in optimizers:
                ended(optimizer)
            return result

        graph_class.capture_end, graph_class.replay = watched_capture_end, watched_replay

    def _keep(self, graph) -> None:
        captured, self._captured = self._captured, []
        if captured:
            self._held[graph] = captured

    def _optimizers_of(self, graph) -> list:
        optimizers = (alive() for alive in self._held.get(graph, ()))
        return [optimizer for optimizer in optimizers if optimizer is not None]
