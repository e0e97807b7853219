"""Small programs that together call the ops of trainings: each a function of tensors at three sizes, run as they lie and turned (the last two
axes swapped in memory). What autograd calls for their gradients is part of them."""

import torch
import torch.nn.functional as F
from torch import nn

# rows, width of matrices; images, channels, pixels a side; texts, words, heads
SIZES = {"small": (6, 40, 2, 8, 8, 2, 16, 2), "middle": (700, 1000, 16, 64, 28, 4, 512, 12), "large": (20000, 2048, 128, 64, 112, 16, 1024, 16)}
_UNARY = ("abs", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "relu", "neg", "reciprocal", "erf", "log1p", "expm1",
          "square", "sign", "floor", "round", "ceil", "atan", "sinh", "isnan", "isfinite", "logical_not", "clone", "zeros_like", "ones_like",
          "rand_like", "randn_like", "isinf", "acos", "asin", "cosh", "exp2", "log2", "log10", "trunc", "frac")
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "atan2", "fmod", "lt", "gt", "le", "ge", "eq", "ne", "logical_and",
           "logical_or", "fmax", "fmin", "hypot")
_ACTIVATIONS = ("gelu", "silu", "elu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "mish", "softplus", "logsigmoid", "selu", "celu",
                "softsign", "tanhshrink", "relu6", "hardshrink", "softshrink")
_REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "var", "std", "norm", "argmax", "argmin", "logsumexp", "any", "all", "max", "min")


class Program(nn.Module):
    """`function` of parameters of the shapes `floats` and of whatever else `others` are."""

    def __init__(self, function, floats, turned):
        super().__init__()
        self.function, self.turned = function, turned
        self.floats = nn.ParameterList(
            nn.Parameter(torch.empty(self._in_memory(shape), device="meta")) for shape in floats)

    def _in_memory(self, shape):
        return (*shape[:-2], shape[-1], shape[-2]) if self.turned and len(shape) > 1 else shape

    def forward(self, *others):
        floats = [p.transpose(-1, -2) if self.turned and p.dim() > 1 else p * 1 for p in self.floats]
        out = self.function(*floats, *others)
        results = [t for t in (out if isinstance(out, (list, tuple)) else [out]) if isinstance(t, torch.Tensor)]
        smooth = [t.sum() for t in results if t.requires_grad]
        return sum(smooth) if smooth else sum(p.sum() for p in self.floats)


def whole(*shape):
    return torch.empty(shape, dtype=torch.int64, device="meta")


def cases(size):
    """name -> (function, shapes of float parameters, other inputs)."""
    rows, width, images, channels, pixels, texts, words, heads = SIZES[size]
    matrix, image, volume = (rows, width), (images, channels, pixels, pixels), (2, channels, 8, pixels, pixels)
    sequence, features = (texts, words, 64 * heads), 64 * heads
    out = {name: (getattr(torch, name), [matrix], ()) for name in _UNARY}
    out |= {name: (getattr(torch, name), [matrix, matrix], ()) for name in _BINARY}
    out |= {f"{name} of a row": (getattr(torch, name), [matrix, (width,)], ()) for name in ("add", "mul", "div", "sub")}
    out |= {name: (getattr(F, name), [matrix], ()) for name in _ACTIVATIONS}
    for name in _REDUCTIONS:
        function = getattr(torch, name)
        out[f"{name} of all"] = (function, [matrix], ())
        out[f"{name} of rows"] = (lambda x, f=function: f(x, dim=-1) if f is not torch.norm else f(x, 2, dim=-1), [matrix], ())
        out[f"{name} of columns"] = (lambda x, f=function: f(x, dim=0) if f is not torch.norm else f(x, 2, dim=0), [matrix], ())
        if name in ("sum", "mean", "amax", "var"):
            out[f"{name} of images"] = (lambda x, f=function: f(x, dim=(0, 2, 3)), [image], ())
    out |= {
        "mm": (torch.mm, [matrix, (width, 64)], ()),
        "addmm": (F.linear, [matrix, (64, width), (64,)], ()),
        "linear without bias": (F.linear, [matrix, (64, width)], ()),
        "bmm": (torch.bmm, [sequence, (texts, features, 64)], ()),
        "matmul of texts": (F.linear, [sequence, (128, features), (128,)], ()),
        "mv": (torch.mv, [matrix, (width,)], ()),
        "dot": (torch.dot, [(width,), (width,)], ()),
        "baddbmm": (torch.baddbmm, [(texts, words, 64), sequence, (texts, features, 64)], ()),
        "einsum": (lambda a, b: torch.einsum("bif,bjf->bij", a, b), [sequence, sequence], ()),
        "outer": (torch.outer, [(rows,), (width,)], ()),
        "softmax": (lambda x: x.softmax(-1), [matrix], ()),
        "log_softmax": (lambda x: x.log_softmax(-1), [matrix], ()),
        "softmax of columns": (lambda x: x.softmax(0), [matrix], ()),
        "softmax in half": (lambda x: x.softmax(-1, dtype=torch.float32).half(), [matrix], ()),
        "glu": (F.glu, [matrix], ()),
        "prelu": (F.prelu, [matrix, (1,)], ()),
        "dropout": (F.dropout, [matrix], ()),
        "dropout2d": (F.dropout2d, [image], ()),
        "clamp": (lambda x: x.clamp(-1, 1), [matrix], ()),
        "clamp_min": (lambda x: x.clamp_min(0), [matrix], ()),
        "where": (lambda x, y: torch.where(x > y, x, y), [matrix, matrix], ()),
        "masked_fill": (lambda x: x.masked_fill(x > 0, 0.0), [matrix], ()),
        "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.5), [matrix] * 3, ()),
        "addcdiv": (torch.addcdiv, [matrix] * 3, ()),
        "lerp": (lambda a, b: torch.lerp(a, b, 0.3), [matrix] * 2, ()),
        "lerp by a tensor": (torch.lerp, [matrix] * 3, ()),
        "pow of a number": (lambda x: x ** 3, [matrix], ()),
        "rsub": (lambda x: 1 - x, [matrix], ()),
        "remainder": (lambda x: x % 2, [matrix], ()),
        "nan_to_num": (torch.nan_to_num, [matrix], ()),
        "to half": (lambda x: x.half(), [matrix], ()),
        "to bfloat16": (lambda x: x.bfloat16(), [matrix], ()),
        "to double": (lambda x: x.double(), [matrix], ()),
        "contiguous": (lambda x: x.contiguous(), [matrix], ()),
        "reshape": (lambda x: x.reshape(-1), [matrix], ()),
        "permute": (lambda x: x.permute(0, 2, 3, 1).contiguous(), [image], ()),
        "cat": (lambda a, b: torch.cat([a, b], 1), [matrix] * 2, ()),
        "cat of rows": (lambda a, b: torch.cat([a, b]), [matrix] * 2, ()),
        "stack": (lambda a, b: torch.stack([a, b]), [matrix] * 2, ()),
        "split": (lambda x: torch.split(x, max(1, width // 2), 1), [matrix], ()),
        "chunk": (lambda x: x.chunk(2, 1), [matrix], ()),
        "unbind": (lambda x: x[:4].unbind(), [matrix], ()),
        "slice": (lambda x: x[1:, 1:], [matrix], ()),
        "select": (lambda x: x[0], [matrix], ()),
        "expand": (lambda x: x[:, :1].expand(-1, 8).contiguous(), [matrix], ()),
        "repeat": (lambda x: x.repeat(2, 1), [matrix], ()),
        "flip": (lambda x: x.flip(0), [matrix], ()),
        "roll": (lambda x: x.roll(1, 0), [matrix], ()),
        "tril": (torch.tril, [matrix], ()),
        "triu": (torch.triu, [matrix], ()),
        "diagonal": (lambda x: x.diagonal(), [matrix], ()),
        "pad": (lambda x: F.pad(x, (1, 1)), [matrix], ()),
        "pad with reflection": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), [image], ()),
        "pad with copies": (lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), [image], ()),
        "unfold": (lambda x: x.unfold(1, 4, 2).contiguous(), [matrix], ()),
        "im2col": (lambda x: F.unfold(x, 3), [(2, channels, pixels, pixels)], ()),
        "index_select": (lambda x, i: x.index_select(0, i), [matrix], (whole(rows),)),
        "gather": (lambda x, i: x.gather(1, i), [matrix], (whole(rows, 8),)),
        "index": (lambda x, i: x[i], [matrix], (whole(rows),)),
        "index of pairs": (lambda x, i: x[i, i], [matrix], (whole(rows),)),
        "scatter": (lambda x, i: torch.zeros_like(x).scatter(1, i, x[:, :8]), [matrix], (whole(rows, 8),)),
        "scatter_add": (lambda x, i: torch.zeros_like(x).scatter_add(1, i, x[:, :8]), [matrix], (whole(rows, 8),)),
        "index_add": (lambda x, i: torch.zeros_like(x).index_add(0, i, x), [matrix], (whole(rows),)),
        "index_copy": (lambda x, i: torch.zeros_like(x).index_copy(0, i, x), [matrix], (whole(rows),)),
        "index_put": (lambda x, i: torch.zeros_like(x).index_put((i,), x), [matrix], (whole(rows),)),
        "index_put with sums": (lambda x, i: torch.zeros_like(x).index_put((i,), x, accumulate=True), [matrix], (whole(rows),)),
        "take_along_dim": (lambda x, i: x.take_along_dim(i, 1), [matrix], (whole(rows, 8),)),
        "one_hot": (lambda x, i: F.one_hot(i, 10) * x[:, :10], [matrix], (whole(rows),)),
        "embedding": (lambda w, i: F.embedding(i, w), [(5000, width)], (whole(texts, words),)),
        "embedding with padding": (lambda w, i: F.embedding(i, w, padding_idx=0), [(5000, width)], (whole(texts, words),)),
        "embedding_bag": (lambda w, i: F.embedding_bag(i, w), [(5000, width)], (whole(texts, words),)),
        "sort": (lambda x: x.sort(-1)[0], [matrix], ()),
        "sort of columns": (lambda x: x.sort(0)[0], [matrix], ()),
        "argsort": (lambda x: x.argsort(-1), [matrix], ()),
        "sort of all": (lambda x: x.reshape(-1).sort()[0], [matrix], ()),
        "topk": (lambda x: x.topk(4)[0], [matrix], ()),
        "kthvalue": (lambda x: x.kthvalue(2)[0], [matrix], ()),
        "median": (lambda x: x.median(-1)[0], [matrix], ()),
        "cumsum": (lambda x: x.cumsum(-1), [matrix], ()),
        "cumsum of columns": (lambda x: x.cumsum(0), [matrix], ()),
        "cumsum of all": (lambda x: x.reshape(-1).cumsum(0), [matrix], ()),
        "cumprod": (lambda x: x.cumprod(-1), [matrix], ()),
        "logcumsumexp": (lambda x: x.logcumsumexp(-1), [matrix], ()),
        "cummax": (lambda x: x.cummax(-1)[0], [matrix], ()),
        "cdist": (lambda a, b: torch.cdist(a, b), [(64, width), (64, width)], ()),
        "bucketize": (lambda x: torch.bucketize(x, torch.arange(8.0, device=x.device)), [matrix], ()),
        "multinomial": (lambda x: torch.multinomial(x.abs(), 1), [matrix], ()),
        "randperm": (lambda x: x[torch.randperm(x.shape[0], device=x.device)], [matrix], ()),
        "bernoulli": (lambda x: x * torch.bernoulli(x), [matrix], ()),
        "arange": (lambda x: x * torch.arange(x.shape[1], device=x.device), [matrix], ()),
        "linspace": (lambda x: x * torch.linspace(0, 1, x.shape[1], device=x.device), [matrix], ()),
        "eye": (lambda x: x[:, :1] * torch.eye(8, device=x.device)[0], [matrix], ()),
        "fft": (lambda x: torch.fft.rfft(x).abs(), [matrix], ()),
        "fft2": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x)), [(images, 4, pixels, pixels)], ()),
        "stft": (lambda x: torch.stft(x, 64, return_complex=True).abs(), [(rows, 1024)], ()),
        "cholesky": (lambda x: torch.linalg.cholesky(x), [(64, 64)], ()),
        "inverse": (torch.linalg.inv, [(64, 64)], ()),
        "det": (torch.linalg.det, [(4, 64, 64)], ()),
        "solve": (torch.linalg.solve, [(64, 64), (64, 8)], ()),
        "svd": (lambda x: torch.linalg.svdvals(x), [(64, 64)], ()),
        "qr": (lambda x: torch.linalg.qr(x)[0], [(64, 32)], ()),
        "eigh": (lambda x: torch.linalg.eigh(x)[0], [(64, 64)], ()),
        "matrix_exp": (torch.matrix_exp, [(4, 32, 32)], ()),
        "cross_entropy": (F.cross_entropy, [matrix], (whole(rows),)),
        "cross_entropy of images": (F.cross_entropy, [(images, 20, pixels, pixels)], (whole(images, pixels, pixels),)),
        "cross_entropy of shares": (lambda x, y: F.cross_entropy(x, y.softmax(-1)), [matrix, matrix], ()),
        "cross_entropy, smoothed": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), [matrix], (whole(rows),)),
        "nll_loss by sample": (lambda x, y: F.nll_loss(x, y, reduction="none"), [matrix], (whole(rows),)),
        "mse_loss": (F.mse_loss, [matrix] * 2, ()),
        "l1_loss": (F.l1_loss, [matrix] * 2, ()),
        "smooth_l1_loss": (F.smooth_l1_loss, [matrix] * 2, ()),
        "huber_loss": (F.huber_loss, [matrix] * 2, ()),
        "bce": (lambda x, y: F.binary_cross_entropy(x, y.detach()), [matrix] * 2, ()),
        "bce with logits": (lambda x, y: F.binary_cross_entropy_with_logits(x, y.detach()), [matrix] * 2, ()),
        "kl_div": (F.kl_div, [matrix] * 2, ()),
        "soft_margin_loss": (F.soft_margin_loss, [matrix] * 2, ()),
        "cosine_similarity": (F.cosine_similarity, [matrix] * 2, ()),
        "triplet": (F.triplet_margin_loss, [matrix] * 3, ()),
        "margin ranking": (lambda a, b: F.margin_ranking_loss(a, b, torch.ones_like(a)), [matrix] * 2, ()),
        "multilabel margin": (lambda x: F.multi_margin_loss(x, x.argmax(-1)), [matrix], ()),
        "gaussian nll": (F.gaussian_nll_loss, [matrix] * 3, ()),
        "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [image, (channels, channels, 3, 3), (channels,)], ()),
        "conv2d by 1": (F.conv2d, [image, (channels, channels, 1, 1)], ()),
        "conv2d, strided": (lambda x, w: F.conv2d(x, w, stride=2), [image, (channels, channels, 3, 3)], ()),
        "conv2d, depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=channels), [image, (channels, 1, 3, 3)], ()),
        "conv2d, grouped": (lambda x, w: F.conv2d(x, w, padding=1, groups=4), [image, (channels, channels // 4, 3, 3)], ()),
        "conv1d": (F.conv1d, [(texts, features, words), (64, features, 3)], ()),
        "conv3d": (F.conv3d, [volume, (channels, channels, 3, 3, 3)], ()),
        "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), [image, (channels, channels, 2, 2)], ()),
        "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [image, (channels,), (channels,)], ()),
        "batch_norm of rows": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [matrix, (width,), (width,)], ()),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (features,), w, b), [sequence, (features,), (features,)], ()),
        "group_norm": (lambda x, w, b: F.group_norm(x, 4, w, b), [image, (channels,), (channels,)], ()),
        "instance_norm": (F.instance_norm, [image], ()),
        "rms_norm": (lambda x, w: F.rms_norm(x, (features,), w), [sequence, (features,)], ()),
        "normalize": (F.normalize, [matrix], ()),
        "local_response_norm": (lambda x: F.local_response_norm(x, 5), [image], ()),
        "max_pool2d": (lambda x: F.max_pool2d(x, 2), [image], ()),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), [image], ()),
        "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), [image], ()),
        "adaptive_avg_pool2d to 3": (lambda x: F.adaptive_avg_pool2d(x, 3), [image], ()),
        "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), [image], ()),
        "max_pool1d": (lambda x: F.max_pool1d(x, 2), [sequence], ()),
        "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), [sequence], ()),
        "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), [volume], ()),
        "max_pool3d": (lambda x: F.max_pool3d(x, 2), [volume], ()),
        "interpolate nearest": (lambda x: F.interpolate(x, scale_factor=2), [image], ()),
        "interpolate bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [image], ()),
        "interpolate bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), [image], ()),
        "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), [image, (images, pixels, pixels, 2)], ()),
        "affine_grid": (lambda t: F.affine_grid(t, (images, 3, pixels, pixels), align_corners=False), [(images, 2, 3)], ()),
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), [image], ()),
        "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(texts, heads, words, 64)] * 3, ()),
        "attention, causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(texts, heads, words, 64)] * 3, ()),
        "attention in half": (lambda q, k, v: F.scaled_dot_product_attention(q.half(), k.half(), v.half()), [(texts, heads, words, 64)] * 3, ()),
        "attention with a mask": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
            [(texts, heads, words, 64)] * 3 + [(words, words)], ()),
        "clip of gradients": (lambda a, b: torch.nn.utils.get_total_norm([a, b]), [matrix, image], ()),
        "foreach": (lambda a, b: torch._foreach_add([a, b], 1.0), [matrix, image], ()),
        "foreach_norm": (lambda a, b: torch._foreach_norm([a, b]), [matrix, image], ()),
        "count_nonzero": (lambda x: torch.count_nonzero(x), [matrix], ()),
        "histc": (lambda x: torch.histc(x.detach(), 10, 0, 1), [matrix], ()),
        "searchsorted": (lambda x: torch.searchsorted(x[0].detach(), x[1].detach()), [matrix], ()),
        "polar": (lambda a, b: torch.polar(a, b).abs(), [matrix] * 2, ()),
        "view_as_complex": (lambda x: torch.view_as_complex(x.reshape(rows, width // 2, 2)).abs(), [matrix], ()),
        "trace": (torch.trace, [matrix], ()),
        "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), [matrix], ()),
        "cross": (lambda a, b: torch.linalg.cross(a[:, :3], b[:, :3]), [matrix] * 2, ()),
    }
    return out | _rarer_cases(size)


def _rarer_cases(size):
    """Ops that fewer trainings call."""
    rows, width, images, channels, pixels, texts, words, heads = SIZES[size]
    matrix, image, volume = (rows, width), (images, channels, pixels, pixels), (2, channels, 8, pixels, pixels)
    sequence, features, square = (texts, words, 64 * heads), 64 * heads, (4, 64, 64)
    attention = [(texts, heads, words, 64)] * 3
    out = {name: (getattr(torch, name), [matrix], ()) for name in ("lgamma", "digamma", "erfinv", "sinc", "logit", "nansum", "nanmean", "diff", "msort")}
    out |= {name: (getattr(torch, name), [matrix, matrix], ()) for name in ("logaddexp", "xlogy", "copysign")}
    out |= {
        "std_mean": (lambda x: torch.std_mean(x, -1), [matrix], ()),
        "var_mean of columns": (lambda x: torch.var_mean(x, 0), [matrix], ()),
        "aminmax": (lambda x: torch.aminmax(x, dim=-1), [matrix], ()),
        "quantile": (lambda x: torch.quantile(x[:, :8], 0.5, dim=0), [matrix], ()),
        "mode": (lambda x: torch.mode(x, -1)[0], [matrix], ()),
        "vector_norm": (lambda x: torch.linalg.vector_norm(x, 1, dim=-1), [matrix], ()),
        "matrix_norm": (torch.linalg.matrix_norm, [matrix], ()),
        "trapezoid": (torch.trapezoid, [matrix], ()),
        "cummin": (lambda x: x.cummin(-1)[0], [matrix], ()),
        "rot90": (lambda x: torch.rot90(x), [matrix], ()),
        "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), [matrix] * 2, ()),
        "repeat_interleave": (lambda x: x.repeat_interleave(2, 0), [matrix], ()),
        "tensordot": (lambda a, b: torch.tensordot(a, b, 2), [sequence, (words, features, 8)], ()),
        "addmv": (lambda c, a, b: torch.addmv(c, a, b), [(rows,), matrix, (width,)], ()),
        "addr": (torch.addr, [matrix, (rows,), (width,)], ()),
        "bilinear": (F.bilinear, [(rows, 8), (rows, 8), (16, 8, 8), (16,)], ()),
        "kron": (torch.kron, [(32, 8), (8, 8)], ()),
        "chain_matmul": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), [matrix, (width, 64), (64, 32)], ()),
        "matrix_power": (lambda x: torch.linalg.matrix_power(x, 3), [square], ()),
        "scatter_reduce": (lambda x, i: torch.zeros_like(x).scatter_reduce(1, i, x[:, :8], "amax"), [matrix], (whole(rows, 8),)),
        "scatter_reduce, mean": (lambda x, i: torch.zeros_like(x).scatter_reduce(1, i, x[:, :8], "mean"), [matrix], (whole(rows, 8),)),
        "index_reduce": (lambda x, i: torch.ones_like(x).index_reduce(0, i, x, "mean"), [matrix], (whole(rows),)),
        "index_fill": (lambda x, i: x.index_fill(0, i, 0.0), [matrix], (whole(rows),)),
        "isin": (lambda x, i: x * torch.isin(i, i[:4])[:, None], [matrix], (whole(rows),)),
        "embedding_bag of sums": (lambda w, i: F.embedding_bag(i, w, mode="sum"), [(5000, width)], (whole(texts, words),)),
        "embedding_bag of maxima": (lambda w, i: F.embedding_bag(i, w, mode="max"), [(5000, width)], (whole(texts, words),)),
        "gumbel_softmax": (lambda x: F.gumbel_softmax(x, hard=True), [matrix], ()),
        "rrelu": (lambda x: F.rrelu(x, training=True), [matrix], ()),
        "alpha_dropout": (lambda x: F.alpha_dropout(x, 0.1), [matrix], ()),
        "weight_norm": (lambda v, g: torch._weight_norm(v, g, 0), [matrix, (rows, 1)], ()),
        "threshold": (lambda x: F.threshold(x, 0.1, 0.0), [matrix], ()),
        "poisson_nll_loss": (lambda x, y: F.poisson_nll_loss(x, y.detach()), [matrix] * 2, ()),
        "hinge embedding": (lambda x, y: F.hinge_embedding_loss(x, y.detach()), [matrix] * 2, ()),
        "cosine embedding": (lambda a, b: F.cosine_embedding_loss(a, b, torch.ones(rows, device=a.device)), [matrix] * 2, ()),
        "multilabel soft margin": (lambda x, y: F.multilabel_soft_margin_loss(x, y.detach()), [matrix] * 2, ()),
        "multilabel margin by classes": (F.multilabel_margin_loss, [matrix], (whole(rows, width),)),
        "focal": (lambda x, y: ((1 - (-F.cross_entropy(x, y, reduction="none")).exp()) ** 2).mean(), [matrix], (whole(rows),)),
        "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, stride=2), [(texts, features, words), (features, 32, 2)], ()),
        "conv_transpose3d": (lambda x, w: F.conv_transpose3d(x, w, stride=2), [(2, 8, 4, pixels, pixels), (8, 8, 2, 2, 2)], ()),
        "conv2d, dilated": (lambda x, w: F.conv2d(x, w, padding=2, dilation=2), [image, (channels, channels, 3, 3)], ()),
        "conv2d in half": (lambda x, w: F.conv2d(x.half(), w.half(), padding=1), [image, (channels, channels, 3, 3)], ()),
        "linear in bfloat16": (lambda x, w, b: F.linear(x.bfloat16(), w.bfloat16(), b.bfloat16()), [matrix, (64, width), (64,)], ()),
        "layer_norm in bfloat16": (lambda x, w, b: F.layer_norm(x.bfloat16(), (features,), w.bfloat16(), b.bfloat16()),
            [sequence, (features,), (features,)], ()),
        "lp_pool2d": (lambda x: F.lp_pool2d(x, 2, 2), [image], ()),
        "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 4), [sequence], ()),
        "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2), [volume], ()),
        "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 4), [sequence], ()),
        "max_unpool2d": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), [image], ()),
        "fractional_max_pool2d": (lambda x: F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5)), [image], ()),
        "fold": (lambda x: F.fold(x, (pixels, pixels), 2, stride=2), [(2, channels * 4, (pixels // 2) ** 2)], ()),
        "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), [image], ()),
        "channel_shuffle": (lambda x: F.channel_shuffle(x, 4), [image], ()),
        "interpolate trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), [(2, 8, 4, pixels, pixels)], ()),
        "interpolate area": (lambda x: F.interpolate(x, size=(4, 4), mode="area"), [image], ()),
        "interpolate, antialias": (lambda x: F.interpolate(x, size=(5, 5), mode="bilinear", antialias=True), [image], ()),
        "pad with circles": (lambda x: F.pad(x, (1, 1, 1, 1), mode="circular"), [image], ()),
        "attention in bfloat16, dropout": (lambda q, k, v: F.scaled_dot_product_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), dropout_p=0.1),
            attention, ()),
        "attention, grouped heads": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            [(texts, heads, words, 64)] + [(texts, heads // 2, words, 64)] * 2, ()),
        "ctc_loss": (lambda x, t: F.ctc_loss(x.log_softmax(-1), t, torch.full((texts,), 32), torch.full((texts,), 8)),
            [(32, texts, 30)], (whole(texts, 8),)),
        "pinv": (torch.linalg.pinv, [(4, 32, 16)], ()),
        "slogdet": (lambda x: torch.linalg.slogdet(x)[1], [square], ()),
        "lu_factor": (lambda x: torch.linalg.lu_factor(x)[0], [square], ()),
        "solve_triangular": (lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), [square, (4, 64, 8)], ()),
        "eigvalsh": (torch.linalg.eigvalsh, [square], ()),
        "complex product": (lambda a, b: (torch.complex(a, b) * torch.complex(b, a)).real, [matrix] * 2, ()),
        "fft of all axes": (lambda x: torch.fft.fftn(x).abs(), [(images, 4, pixels, pixels)], ()),
    }
    return out
