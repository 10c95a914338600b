"""A word-level LSTM: truncated backpropagation with detached hidden states, then sentences of unequal lengths, packed."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from start import seeded, text


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers):
        super().__init__()
        self.ntoken, self.nhid, self.nlayers = ntoken, nhid, nlayers
        self.drop = nn.Dropout(0.0)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=0.0)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output))
        return nn.functional.log_softmax(decoded.view(-1, self.ntoken), dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


corpus = text()
vocab = {c: i for i, c in enumerate(sorted(set(corpus)))}
ids = torch.tensor([vocab[c] for c in corpus]).type(torch.int64)
train_data = batchify(ids, 4)
model = seeded(torch, RNNModel(len(vocab), 8, 16, 2))
criterion = nn.NLLLoss()
lr, bptt, losses = 2.0, 16, []
model.train()
hidden = model.init_hidden(4)
for i in range(0, train_data.size(0) - 1, bptt):
    seq_len = min(bptt, len(train_data) - 1 - i)
    data, targets = train_data[i : i + seq_len], train_data[i + 1 : i + 1 + seq_len].reshape(-1)
    model.zero_grad()
    hidden = repackage_hidden(hidden)
    output, hidden = model(data, hidden)
    loss = criterion(output, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-lr)
    losses.append(loss.item())


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(vocab), 8, padding_idx=0)
        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)
        self.out = nn.Linear(16, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embed(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed_out, h = self.rnn(packed)
        out, _ = pad_packed_sequence(packed_out, batch_first=True)
        return self.out(torch.cat([h[0], h[1]], dim=-1)), out


sentences = [ids[0:9], ids[9:14], ids[14:26], ids[26:30]]
labels = torch.tensor([0, 1, 0, 1])
lengths = torch.tensor([len(s) for s in sentences])
batch = pad_sequence(sentences, batch_first=True, padding_value=0)
tagger = seeded(torch, Tagger(), 3)
optimizer = torch.optim.Adam(tagger.parameters(), lr=0.05)
for step in range(8):
    optimizer.zero_grad()
    logits, states = tagger(batch, lengths)
    loss = nn.functional.cross_entropy(logits, labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert states.shape == (4, 12, 16)
