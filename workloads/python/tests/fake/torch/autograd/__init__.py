def backward(work):
    """Does the work of a backward pass, a function."""
    work()
