"""Tensor parallelism with PyTorch's `parallelize_module`, in the layout of Megatron-LM (Shoeybi et al., 2019).

Each rank has its heads and its part of the inner width of each layer, and its part of the vocabulary in the embedding
and the output layer. Norms, learned positions and the biases that are added after a sum are on every rank. The logits
stay divided, and the loss is made from them under `loss_parallel`. Activations between the layers are whole on every
rank: there is no sequence parallelism.
"""

import torch
from models.reference import Gradients, Reference, Update
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)


def divided(update: Update, gradients: Gradients) -> Gradients:
    """Divides the update's parameters among all ranks; gives its gradients, made from the divided logits."""
    model = update.part
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    parallelize_module(model, mesh, STYLES[type(model).__module__.rpartition(".")[2]](model, mesh.size()))

    def divided_gradients(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with loss_parallel():
            return gradients(inputs, targets).full_tensor()

    return divided_gradients


def groups(part: nn.Module) -> list[list[nn.Parameter]]:
    """Parameters that are divided, and those that are not: a fused optimizer takes them in separate calls."""
    of_kind = {True: [], False: []}
    for parameter in part.parameters():
        of_kind[isinstance(parameter, DTensor)].append(parameter)
    return list(of_kind.values())


def gpt2(model: Reference, ranks: int) -> dict[str, ParallelStyle]:
    for layer in model.h:
        for tensor in layer.attn["c_attn"].parameters():
            # Rows are query, key and value of all heads. Each rank's part is to have query, key and value of its heads.
            by_rank = tensor.data.unflatten(0, (3, ranks, -1)).transpose(0, 1).flatten(0, 2)
            tensor.data.copy_(by_rank)
    return {
        "wte": embedding(),
        "h.*.attn.c_attn": ColwiseParallel(),
        "h.*.attn.c_proj": RowwiseParallel(),
        "h.*.mlp.c_fc": ColwiseParallel(),
        "h.*.mlp.c_proj": RowwiseParallel(),
        # What enters the product with the tied weight.
        "ln_f": PrepareModuleOutput(
            output_layouts=Replicate(), desired_output_layouts=Replicate(), use_local_output=False
        ),
    }


def llama(model: Reference, ranks: int) -> dict[str, ParallelStyle]:
    return {
        "model.embed_tokens": embedding(),
        "model.layers.*.self_attn": shared_input(Replicate(), None, None),
        **{f"model.layers.*.self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
        "model.layers.*.self_attn.o_proj": RowwiseParallel(),
        "model.layers.*.mlp": shared_input(Replicate()),
        "model.layers.*.mlp.gate_proj": ColwiseParallel(),
        "model.layers.*.mlp.up_proj": ColwiseParallel(),
        "model.layers.*.mlp.down_proj": RowwiseParallel(),
        "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }


STYLES = {"gpt2": gpt2, "llama": llama}
"""The styles of each family's modules, for a number of ranks."""


def embedding() -> ParallelStyle:
    """Rows, which are tokens of the vocabulary, are divided. Each rank looks up its own, and the results are added."""
    return RowwiseParallel(input_layouts=Replicate())


def shared_input(*layouts) -> ParallelStyle:
    """One DTensor enters all projections of a module, so that their gradients are added up before the sum over ranks."""
    return PrepareModuleInput(input_layouts=layouts, desired_input_layouts=layouts)
