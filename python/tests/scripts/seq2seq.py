"""Translation with `nn.Transformer`: sinusoidal positions, masks of both kinds, label smoothing, greedy decoding."""

import math

import numpy as np
import torch
import torch.nn as nn
from torch import Tensor

from start import seeded

PAD, BOS, EOS = 0, 1, 2
DEVICE = torch.device("cpu")


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size: int, dropout: float, maxlen: int = 50):
        super(PositionalEncoding, self).__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pos_embedding = torch.zeros((maxlen, emb_size))
        pos_embedding[:, 0::2] = torch.sin(pos * den)
        pos_embedding[:, 1::2] = torch.cos(pos * den)
        pos_embedding = pos_embedding.unsqueeze(-2)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", pos_embedding)

    def forward(self, token_embedding: Tensor):
        return self.dropout(token_embedding + self.pos_embedding[: token_embedding.size(0), :])


class Seq2Seq(nn.Module):
    def __init__(self, vocab, emb_size=16):
        super().__init__()
        self.transformer = nn.Transformer(emb_size, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32, dropout=0.0)
        self.generator = nn.Linear(emb_size, vocab)
        self.embedding, self.emb_size = nn.Embedding(vocab, emb_size), emb_size
        self.positional_encoding = PositionalEncoding(emb_size, dropout=0.0)

    def embed(self, tokens):
        return self.positional_encoding(self.embedding(tokens.long()) * math.sqrt(self.emb_size))

    def forward(self, src, trg, src_mask, tgt_mask, src_padding_mask, tgt_padding_mask, memory_key_padding_mask):
        outs = self.transformer(
            self.embed(src), self.embed(trg), src_mask, tgt_mask, None, src_padding_mask, tgt_padding_mask, memory_key_padding_mask
        )
        return self.generator(outs)

    def encode(self, src, src_mask):
        return self.transformer.encoder(self.embed(src), src_mask)

    def decode(self, tgt, memory, tgt_mask):
        return self.transformer.decoder(self.embed(tgt), memory, tgt_mask)


def generate_square_subsequent_mask(sz):
    mask = (torch.triu(torch.ones((sz, sz), device=DEVICE)) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, float(0.0))


def create_mask(src, tgt):
    tgt_mask = generate_square_subsequent_mask(tgt.shape[0])
    src_mask = torch.zeros((src.shape[0], src.shape[0]), device=DEVICE)
    src_padding, tgt_padding = (src == PAD).transpose(0, 1), (tgt == PAD).transpose(0, 1)
    return src_mask.float(), tgt_mask, src_padding.float().masked_fill(src_padding, float("-inf")), tgt_padding.float().masked_fill(tgt_padding, float("-inf"))


rng = np.random.RandomState(0)
pairs = []
for _ in range(16):
    words = rng.randint(3, 10, rng.randint(2, 6))
    pairs.append((torch.tensor(words), torch.tensor([BOS, *words[::-1], EOS])))
src = nn.utils.rnn.pad_sequence([a for a, _ in pairs], padding_value=PAD)
tgt = nn.utils.rnn.pad_sequence([b for _, b in pairs], padding_value=PAD)
model = seeded(torch, Seq2Seq(10), scale=0.3)
loss_fn = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003, betas=(0.9, 0.98), eps=1e-9)
losses = []
for step in range(10):
    tgt_input, tgt_out = tgt[:-1, :], tgt[1:, :]
    masks = create_mask(src, tgt_input)
    logits = model(src, tgt_input, masks[0], masks[1], masks[2], masks[3], masks[2])
    optimizer.zero_grad()
    loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt_out.reshape(-1))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

model.eval()
with torch.no_grad():
    memory = model.encode(src[:, :1], torch.zeros(src.shape[0], src.shape[0]))
    ys = torch.ones(1, 1).fill_(BOS).type(torch.long)
    for i in range(4):
        out = model.decode(ys, memory, generate_square_subsequent_mask(ys.size(0))).transpose(0, 1)
        prob = model.generator(out[:, -1])
        _, next_word = torch.max(prob, dim=1)
        ys = torch.cat([ys, torch.ones(1, 1).type_as(src.data).fill_(next_word.item())], dim=0)
losses.append(prob.max().item())
