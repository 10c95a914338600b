"""Other families as people write them: BERT, T5's positions, Llama, a temporal convolution, graphs, DLRM, capsules of code."""

import math
from typing import Optional

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

from start import seeded


class BertSelfAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.num_attention_heads, self.attention_head_size = heads, hidden // heads
        self.query, self.key, self.value = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(0.0)

    def transpose_for_scores(self, x):
        new_x_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        return x.view(*new_x_shape).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        q, k, v = (self.transpose_for_scores(f(hidden_states)) for f in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            scores = scores + attention_mask
        probs = self.dropout(nn.functional.softmax(scores, dim=-1))
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return context.view(*(context.size()[:-2] + (self.num_attention_heads * self.attention_head_size,)))


class Bert(nn.Module):
    def __init__(self, vocab=12, hidden=16):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, hidden, padding_idx=0)
        self.position_embeddings, self.token_type_embeddings = nn.Embedding(8, hidden), nn.Embedding(2, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(8).expand((1, -1)))
        self.attention, self.dense = BertSelfAttention(hidden, 4), nn.Linear(hidden, hidden)
        self.pooler, self.classifier = nn.Linear(hidden, hidden), nn.Linear(hidden, 3)

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        batch, length = input_ids.size()
        if token_type_ids is None:
            token_type_ids = torch.zeros((batch, length), dtype=torch.long, device=input_ids.device)
        position_ids = self.position_ids[:, :length]
        x = self.word_embeddings(input_ids) + self.position_embeddings(position_ids) + self.token_type_embeddings(token_type_ids)
        x = self.LayerNorm(x)
        extended = attention_mask[:, None, None, :].to(dtype=x.dtype)
        extended = (1.0 - extended) * torch.finfo(x.dtype).min
        x = self.LayerNorm(self.dense(self.attention(x, extended)) + x)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class RMSNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end, device=freqs.device)
    freqs = torch.outer(t, freqs).float()
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(xq, xk, freqs_cis):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis.view(1, xq_.shape[1], 1, xq_.shape[-1])
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def repeat_kv(x, n_rep: int):
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return x[:, :, :, None, :].expand(bs, slen, n_kv_heads, n_rep, head_dim).reshape(bs, slen, n_kv_heads * n_rep, head_dim)


class Llama(nn.Module):
    def __init__(self, vocab=12, dim=16, n_heads=4, n_kv_heads=2):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, dim // n_heads
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.w1, self.w3, self.w2 = nn.Linear(dim, 32, bias=False), nn.Linear(dim, 32, bias=False), nn.Linear(32, dim, bias=False)
        self.attention_norm, self.ffn_norm, self.norm = RMSNorm(dim), RMSNorm(dim), RMSNorm(dim)
        self.output = nn.Linear(dim, vocab, bias=False)
        self.freqs_cis = precompute_freqs_cis(self.head_dim, 16)

    def forward(self, tokens, start_pos: int = 0):
        _bsz, seqlen = tokens.shape
        h = self.tok_embeddings(tokens)
        freqs_cis = self.freqs_cis[start_pos : start_pos + seqlen]
        mask: Optional[torch.Tensor] = None
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=tokens.device)
            mask = torch.triu(mask, diagonal=1)
        x = self.attention_norm(h)
        xq = self.wq(x).view(_bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(_bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(_bsz, seqlen, self.n_kv_heads, self.head_dim)
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis=freqs_cis)
        keys, values = repeat_kv(xk, 2).transpose(1, 2), repeat_kv(xv, 2).transpose(1, 2)
        scores = torch.matmul(xq.transpose(1, 2), keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        scores = F.softmax((scores + mask).float(), dim=-1).type_as(xq)
        out = torch.matmul(scores, values).transpose(1, 2).contiguous().view(_bsz, seqlen, -1)
        h = h + self.wo(out)
        y = self.ffn_norm(h)
        h = h + self.w2(F.silu(self.w1(y)) * self.w3(y))
        return self.output(self.norm(h)).float()


class T5Bias(nn.Module):
    def __init__(self, buckets=8, heads=2):
        super().__init__()
        self.relative_attention_bias, self.buckets = nn.Embedding(buckets, heads), buckets

    def forward(self, length):
        context, memory = torch.arange(length)[:, None], torch.arange(length)[None, :]
        relative = memory - context
        n = self.buckets // 2
        bucket = (relative > 0).to(torch.long) * n
        distance = torch.abs(relative)
        max_exact = n // 2
        is_small = distance < max_exact
        large = max_exact + (torch.log(distance.float().clamp(min=1) / max_exact) / math.log(16 / max_exact) * (n - max_exact)).to(torch.long)
        large = torch.min(large, torch.full_like(large, n - 1))
        bucket += torch.where(is_small, distance, large)
        return self.relative_attention_bias(bucket).permute([2, 0, 1]).unsqueeze(0)


class Chomp1d(nn.Module):
    def __init__(self, chomp_size):
        super().__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        return x[:, :, : -self.chomp_size].contiguous()


class TCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = weight_norm(nn.Conv1d(1, 4, 2, padding=1, dilation=1))
        self.conv2 = weight_norm(nn.Conv1d(4, 4, 2, padding=2, dilation=2))
        self.net = nn.Sequential(self.conv1, Chomp1d(1), nn.ReLU(), self.conv2, Chomp1d(2), nn.ReLU())
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(self.net(x)[:, :, -1])


class GraphConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.FloatTensor(i, o))
        self.bias = nn.Parameter(torch.FloatTensor(o))
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        return torch.mm(adj, torch.mm(input, self.weight)) + self.bias

    def __repr__(self):
        return self.__class__.__name__ + " (" + str(self.weight.size(0)) + ")"


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1, self.gc2 = GraphConv(5, 8), GraphConv(8, 3)

    def forward(self, x, adj):
        x = F.dropout(F.relu(self.gc1(x, adj)), 0.0, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


class MessagePassing(nn.Module):
    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(10, 5), nn.GRUCell(5, 5)

    def forward(self, x, edge_index):
        src, dst = edge_index
        m = F.relu(self.message(torch.cat([x[src], x[dst]], dim=-1)))
        total = torch.zeros_like(x).index_add_(0, dst, m)
        degree = torch.zeros(x.size(0)).scatter_add_(0, dst, torch.ones(dst.size(0)))
        return self.update(total / degree.clamp(min=1).unsqueeze(-1), x)


rng = np.random.RandomState(0)
tokens = torch.tensor(rng.randint(1, 12, (4, 8)))
classes, losses = torch.tensor([0, 1, 2, 1]), []


def trained(model, loss_of, lr=0.05, steps=4):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


mask = torch.ones(4, 8)
mask[1, 5:] = 0
trained(seeded(torch, Bert()), lambda m: F.cross_entropy(m(tokens, mask), classes))
trained(seeded(torch, Llama()), lambda m: F.cross_entropy(m(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:]))
trained(seeded(torch, T5Bias()), lambda m: m(6).square().mean())
signal = torch.from_numpy(rng.randn(4, 1, 12).astype(np.float32))
trained(seeded(torch, TCN(), scale=0.5), lambda m: nn.CrossEntropyLoss()(m(signal), classes))
adj = torch.eye(4) + torch.tensor([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]).float()
adj = adj / adj.sum(1, keepdim=True)
nodes = torch.from_numpy(rng.randn(4, 5).astype(np.float32))
trained(seeded(torch, GCN(), scale=0.5), lambda m: F.nll_loss(m(nodes, adj)[:3], classes[:3]))
edges = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 2]])
trained(seeded(torch, MessagePassing(), scale=0.5), lambda m: m(nodes, edges).pow(2).mean())
