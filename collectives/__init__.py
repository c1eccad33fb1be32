"""Collective operations on compressed tensors, over MPI, torch.distributed or simulated ranks.

    import collectives as co
    mean = co.allreduce(MPI.COMM_WORLD, gradient, "topk(0.01) | rice | qsgd")

All ranks get the same bits, or all ranks raise the same CollectiveError. Follow a gradient:

    channel.find_ends        comm= as an end: the Channel of a communicator, Sites, or a StoreComm
    exchange.session         opens an exchange: prepares the compressor's step, and encodes
    agreement.agree          headers: all ranks go on, or raise the same error
    tuning, algorithms       choose the algorithm of the sum; ``sums`` and ``transport`` send the bytes
    exchange.encoding        decodes and sums what the ranks have sent
    exchange.transaction     commits the step, or rolls it back

``torch.hook`` does this for the parts of a backward pass (``torch.step``, ``torch.parts``): a part commits
to a copy, and ``StepInParts.commit`` takes the whole step. ``local_updates`` does it for the movements of a
period (``ranks``, ``over_store``), and then takes the outer step (``outer_loop``). Other methods than a
Compressor, as CLT-k, have a record in ``methods``.

If a rank dies while payloads are sent, some ranks may commit and others not. ``LocalUpdates.synchronize``
finds out. In other exchanges, the next one raises the same error on all ranks, with reason "scheme": load a
checkpoint on all of them.
"""

from __future__ import annotations

from collectives.allgather import allgather, allgather_bytes
from collectives.allreduce import allreduce
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.cltk.ratios import ratios_by_flops
from collectives.cltk.similarity import MagnitudeHistogram, Similarity, similarity
from collectives.errors import CollectiveError, Timeout
from collectives.exchange.transaction import Pending
from collectives.feed.publisher import Publisher
from collectives.feed.subscriber import Subscriber
from collectives.feed.update import Update
from collectives.gloo.communicator import TorchComm
from collectives.gtopk.allreduce import GTopK
from collectives.local_updates.local_updates import LocalUpdates
from collectives.local_updates.recipes import LOCAL_RECIPES, LocalRecipe, local_recipe
from collectives.oktopk.allreduce import OkTopK
from collectives.simulation.communicator import simulate
from collectives.sites.sites import Sites
from collectives.store.communicator import StoreComm
from collectives.torch.checkpoint import Checkpointable
from collectives.torch.fsdp import fsdp_hook
from collectives.torch.gradients import average_gradients
from collectives.torch.hook import torch_hook
from collectives.torch.optimizer import check_optimizer
from collectives.torch.state import torch_state_dict

__all__ = [
    "LOCAL_RECIPES",
    "CLTk",
    "Channel",
    "Checkpointable",
    "CollectiveError",
    "GTopK",
    "LocalRecipe",
    "LocalUpdates",
    "MagnitudeHistogram",
    "OkTopK",
    "Pending",
    "Publisher",
    "Similarity",
    "Sites",
    "StoreComm",
    "Subscriber",
    "Timeout",
    "TorchComm",
    "Update",
    "allgather",
    "allgather_bytes",
    "allreduce",
    "average_gradients",
    "check_optimizer",
    "fsdp_hook",
    "local_recipe",
    "ratios_by_flops",
    "similarity",
    "simulate",
    "torch_hook",
    "torch_state_dict",
]


def __dir__() -> list[str]:
    """List the public names, for completion in editors and notebooks."""
    return sorted(__all__)
