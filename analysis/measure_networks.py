# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks that several measuring scripts train: layers of Llama and of GPT, a whole network, attention of ragged units,
a fused loss and Adam."""
from measure_common import DEVICE, torch
from torch.utils.checkpoint import checkpoint

functional = torch.nn.functional


def ends_of(lengths):
    return torch.tensor([0] + lengths, device=DEVICE).cumsum(0).to(torch.int32)


class UnitAttention(torch.autograd.Function):
    """Causal attention of a unit by flash-attention 2 as PyTorch has it. Keys and values of a unit are written behind the
    kept ones of each sample, gradients of the latter returned."""

    @staticmethod
    def forward(context, query, key, value, kept):
        keys, values = key, value
        if kept.keys is not None:
            keys, values = kept.keys.clone(), kept.values.clone()
            keys[kept.own], values[kept.own] = key, value
        out, lse, seed, offset, _ = torch.ops.aten._flash_attention_forward(
            query, keys, values, kept.query_ends, kept.key_ends, kept.most_queries, kept.most_keys, 0.0, True, False)
        context.save_for_backward(query, keys, values, out, lse, seed, offset)
        context.kept = kept
        return out

    @staticmethod
    def backward(context, gradient):
        kept = context.kept
        query, keys, values, out, lse, seed, offset = context.saved_tensors
        of_query, of_keys, of_values = torch.ops.aten._flash_attention_backward(
            gradient.contiguous(), query, keys, values, out, lse, kept.query_ends, kept.key_ends, kept.most_queries,
            kept.most_keys, 0.0, True, seed, offset)
        if kept.has_prefix:  # the earlier slices' backwards take these
            kept.key_gradients += of_keys
            kept.value_gradients += of_values
        return of_query, of_keys[kept.own], of_values[kept.own], None


class Documents:
    """Whole documents of unequal lengths in one packed kernel."""
    keys, has_prefix, own = None, False, slice(None)

    def __init__(self, lengths):
        self.query_ends = self.key_ends = ends_of(lengths)
        self.most_queries = self.most_keys = max(lengths)

    def attend(self, query, key, value):
        return UnitAttention.apply(query, key, value.contiguous(), self)


class Kept(Documents):
    """Keys and values of a unit's samples up to the ends of its slices, and which rows of them the unit computes."""

    def __init__(self, slices, groups, width):
        tokens = sum(end for _, end in slices)
        noise = lambda: torch.randn(tokens, groups, width, device=DEVICE, dtype=torch.bfloat16)
        self.keys, self.values = noise(), noise()
        self.has_prefix = any(begin > 0 for begin, _ in slices)
        if self.has_prefix:
            self.key_gradients, self.value_gradients = torch.zeros_like(self.keys), torch.zeros_like(self.values)
        starts = [sum(end for _, end in slices[:i]) for i in range(len(slices))]
        self.own = torch.cat([torch.arange(start + begin, start + end, device=DEVICE)
                              for start, (begin, end) in zip(starts, slices)])
        self.query_ends = ends_of([end - begin for begin, end in slices])
        self.key_ends = ends_of([end for _, end in slices])
        self.most_queries = max(end - begin for begin, end in slices)
        self.most_keys = max(end for _, end in slices)


class Equal:
    """Samples of one length, in the kernel for such batches that the caller chose by sdpa_kernel."""

    def __init__(self, samples, length):
        self.samples, self.length = samples, length

    def attend(self, query, key, value):
        q, k, v = (x.reshape(self.samples, self.length, -1, x.shape[-1]).transpose(1, 2) for x in (query, key, value.contiguous()))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] < q.shape[1])
        return seen.transpose(1, 2).reshape(query.shape)


def rotate(x, cosine, sine):
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat((-right, left), -1) * sine


def swiglu(both):
    gate, up = both.chunk(2, -1)
    return functional.silu(gate) * up


EAGER = rotate, swiglu
FUSED = tuple(torch.compile(function, dynamic=False) for function in EAGER)


class Layer(torch.nn.Module):
    """A Llama layer with joint QKV and joint up projections, on tokens x hidden."""

    def __init__(self, sizes, width=None, operators=FUSED):
        super().__init__()
        hidden, ffn, self.heads, self.groups = sizes
        self.width = width or hidden // self.heads
        self.rotate, self.swiglu = operators
        linear = lambda inputs, outputs: torch.nn.Linear(inputs, outputs, bias=False)
        inner = self.heads * self.width
        self.qkv = linear(hidden, inner + 2 * self.groups * self.width)
        self.projection, self.up, self.down = linear(inner, hidden), linear(hidden, 2 * ffn), linear(ffn, hidden)
        self.norms = torch.nn.ParameterList(torch.ones(hidden) for _ in range(2))

    def forward(self, x, unit, angles):
        qkv = self.qkv(functional.rms_norm(x, x.shape[-1:], self.norms[0]))
        query, key, value = qkv.view(len(x), -1, self.width).split((self.heads, self.groups, self.groups), 1)
        query, key = self.rotate(query, *angles), self.rotate(key, *angles)
        x = x + self.projection(unit.attend(query, key, value).reshape(len(x), -1))
        return x + self.down(self.swiglu(self.up(functional.rms_norm(x, x.shape[-1:], self.norms[1]))))


class GptLayer(torch.nn.Module):
    """LayerNorm, joint QKV, attention, projection; LayerNorm, GELU between two linear layers; no dropout."""

    def __init__(self, hidden, ffn, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(hidden) for _ in range(2))
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.projection = torch.nn.Linear(hidden, hidden)
        self.up = torch.nn.Linear(hidden, ffn)
        self.down = torch.nn.Linear(ffn, hidden)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        parts = self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        q, k, v = (part.view(batch, tokens, self.heads, hidden // self.heads).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(seen.transpose(1, 2).reshape(batch, tokens, hidden))
        return x + self.down(functional.gelu(self.up(self.norms[1](x)), approximate="tanh"))


class Network(torch.nn.Module):
    """Embedding, layers, norm, head and loss. Learned positions if there are any; else the layers rotate."""

    def __init__(self, layers, hidden, vocabulary, tied, positions=0):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)
        self.embedding = torch.nn.Embedding(vocabulary, hidden)
        self.positions = torch.nn.Embedding(positions, hidden) if positions else None
        self.norm = torch.nn.LayerNorm(hidden) if positions else torch.nn.RMSNorm(hidden)
        self.head = torch.nn.Linear(hidden, vocabulary, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        self.recompute, self.loss = False, lambda logits, targets: functional.cross_entropy(logits.float(), targets)

    def forward(self, ids, *arguments):
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        for layer in self.layers:
            x = checkpoint(layer, x, *arguments, use_reentrant=False) if self.recompute else layer(x, *arguments)
        return self.loss(self.head(self.norm(x)).view(-1, self.head.weight.shape[0]), ids.view(-1))


class FusedLoss(torch.autograd.Function):
    """The loss, like flash-attention's fused cross-entropy: logits and the log of their sums are kept, the gradient has their type."""

    @staticmethod
    def forward(ctx, logits, targets):
        lse = torch.cat([part.float().logsumexp(-1) for part in logits.split(512)])
        picked = logits.gather(1, targets[:, None])[:, 0].float()
        ctx.save_for_backward(logits, lse, targets)
        return (lse - picked).mean()

    @staticmethod
    def backward(ctx, gradient):
        logits, lse, _ = ctx.saved_tensors
        result = torch.empty_like(logits)
        for out, part, log in zip(result.split(512), logits.split(512), lse.split(512)):
            out.copy_((part.float() - log[:, None]).exp() * (gradient / len(lse)))
        return result, None


class Adam:
    """Fused Adam on fp32 weights, of bf16 gradients; a list of parameters at a time, so that few fp32 gradients live."""

    def __init__(self, parameters):
        self.parameters = [p for p in parameters if p.requires_grad]
        self.weights = [p.detach().float() for p in self.parameters]
        self.moments = [[torch.zeros_like(w) for w in self.weights] for _ in range(2)]
        self.steps = [torch.zeros((), device=DEVICE) for _ in self.weights]

    def step(self):
        torch._foreach_add_(self.steps, 1.0)  # as torch.optim.AdamW does: with step 0 every weight becomes NaN
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm([p.grad for p in self.parameters])))
        scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        for i, parameter in enumerate(self.parameters):
            gradient = parameter.grad.float() * scale
            torch._fused_adamw_([self.weights[i]], [gradient], [self.moments[0][i]], [self.moments[1][i]], [], [self.steps[i]],
                                lr=1e-4, beta1=0.9, beta2=0.95, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)
            parameter.data.copy_(self.weights[i])
            parameter.grad = None
