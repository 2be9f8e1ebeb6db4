class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._batches = iter(loader.batches)

    def __iter__(self):
        return self

    def __next__(self):
        return self._next_data()

    def _next_data(self):
        return next(self._batches)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    pass


class DataLoader:
    """Gives the batches of an iterable."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return _SingleProcessDataLoaderIter(self)
