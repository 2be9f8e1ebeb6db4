"""What optimizers train, and the state that they hold."""


def parameters(optimizers) -> int:
    """The number of parameters that are trained; 0 if they train nothing."""
    trained = {
        id(parameter): parameter
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad
    }
    return sum(parameter.numel() for parameter in trained.values())


def state_bytes(optimizers):
    """The size of the tensors that optimizers keep for their parameters in this process, without those in lists; None if unknown."""
    held = {}
    for optimizer in optimizers:
        state = getattr(optimizer, "state", None)
        # An optimizer around another one has no state of its own, and those of PyTorch may have none.
        is_of_pytorch = (type(optimizer).__module__ + ".").startswith("torch.optim.")
        if not isinstance(state, dict) or not (state or is_of_pytorch):
            return None
        for of_parameter in list(state.values()):
            for value in of_parameter.values() if isinstance(of_parameter, dict) else ():
                # Of a tensor that ranks divide, the part of this rank.
                value = getattr(value, "_local_tensor", value)
                if hasattr(value, "element_size"):
                    held[id(value)] = value
    return sum(value.numel() * value.element_size() for value in held.values())
