"""``dgc`` on the device: a threshold from a sample, and the elements of the top k that reach it."""

from __future__ import annotations

from wirecodec.gpu.select.common import Context, select_all_finite, to_support
from wirecodec.gpu.support import DeviceSupport
from wirecodec.kernels.cuda import moments
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import infinity_of
from wirecodec.kernels.cuda.topk import Search
from wirecodec.prng import mix
from wirecodec.select.papers.dgc import DGC
from wirecodec.select.topk import fraction_count
from wirecodec.tensors import DeviceFlat


def dgc(device: Device, flat: DeviceFlat, selector: DGC, context: Context) -> DeviceSupport:
    """Select the elements of the top k that reach the sample's threshold.

    NaN and Inf reach every threshold. Raises HostFallback if there is one.
    """
    raw = flat.raw_bits
    k = fraction_count(selector.ratio, raw.size)
    if k == raw.size:
        return select_all_finite(device, flat)
    count = fraction_count(selector.sample, raw.size)
    sample = device.empty(count + 1, raw.dtype)  # a search needs k < n: one zero more
    device.clear(sample)
    moments.sample(device, raw, mix(context.seed), sample[:count])
    threshold = Search(device, count + 1, raw.dtype, fraction_count(selector.ratio, count))
    threshold.cold(sample, 0)
    search = Search(device, raw.size, raw.dtype, k)
    return to_support(device, flat, search.reaching(raw, threshold.rule, infinity_of(flat.dtype)))
