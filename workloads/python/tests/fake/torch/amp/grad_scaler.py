class GradScaler:
    overflowed = False

    def step(self, optimizer, *args, **kwargs):
        return None if self.overflowed else optimizer.step(*args, **kwargs)
