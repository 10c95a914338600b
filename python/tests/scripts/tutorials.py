"""Short programs of other kinds: character RNN, attention step by step, word vectors, DCGAN, style transfer, diffusion, PPO."""

import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.autograd import Variable

from start import pictures, seeded, text

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
rng = np.random.RandomState(0)
losses = []


# A character RNN with a hidden state by hand.
class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super(RNN, self).__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(input_size + hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        combined = torch.cat((input, hidden), 1)
        hidden = torch.tanh(self.i2h(combined))
        return self.softmax(self.i2o(combined)), hidden

    def initHidden(self):
        return torch.zeros(1, self.hidden_size)


letters = "abcdefghijklmnopqrstuvwxyz"


def lineToTensor(line):
    tensor = torch.zeros(len(line), 1, len(letters))
    for li, letter in enumerate(line):
        tensor[li][0][letters.find(letter)] = 1
    return tensor


rnn, criterion = seeded(torch, RNN(26, 16, 2)), nn.NLLLoss()
start = time.time()
for word, category in [("anna", 0), ("kurosawa", 1), ("maria", 0), ("tanaka", 1)] * 2:
    hidden = rnn.initHidden()
    rnn.zero_grad()
    line = lineToTensor(word)
    for i in range(line.size()[0]):
        output, hidden = rnn(line[i], hidden)
    loss = criterion(output, torch.tensor([category], dtype=torch.long))
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-0.05)
    losses.append(loss.item())
guess = output.topk(1)
top_n, top_i = guess
losses.append(top_i[0].item())


# Attention, a step at a time with teacher forcing.
class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super(BahdanauAttention, self).__init__()
        self.Wa, self.Ua, self.Va = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        scores = scores.squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class Translator(nn.Module):
    def __init__(self, vocab=8, hidden=12):
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(vocab, hidden), nn.GRU(hidden, hidden, batch_first=True)
        self.attention, self.gru = BahdanauAttention(hidden), nn.GRU(2 * hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, source, target=None):
        outputs, hidden = self.encoder(self.embedding(source))
        decoder_input = torch.empty(source.size(0), 1, dtype=torch.long, device=device).fill_(0)
        decoded = []
        for i in range(4):
            embedded = self.embedding(decoder_input)
            context, weights = self.attention(hidden.permute(1, 0, 2), outputs)
            output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
            decoded.append(self.out(output))
            if target is not None:
                decoder_input = target[:, i].unsqueeze(1)
            else:
                _, topi = decoded[-1].topk(1)
                decoder_input = topi.squeeze(-1).detach()
        return F.log_softmax(torch.cat(decoded, dim=1), dim=-1)


source = torch.from_numpy(rng.randint(1, 8, (6, 4)))
net = seeded(torch, Translator().to(device))
optimizer = optim.Adam(net.parameters(), lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    out = net(source, source.flip(dims=(1,)))
    loss = nn.NLLLoss()(out.view(-1, out.size(-1)), source.flip(dims=(1,)).reshape(-1))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with torch.no_grad():
    losses.append(net(source).exp().max().item())


# Word vectors with negative samples.
class SkipGram(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.u, self.v = nn.Embedding(vocab_size, dim, sparse=True), nn.Embedding(vocab_size, dim)
        self.u.weight.data.uniform_(-0.5 / dim, 0.5 / dim)
        self.v.weight.data.uniform_(-0, 0)

    def forward(self, pos_u, pos_v, neg_v):
        emb_u, emb_v, neg = self.u(pos_u), self.v(pos_v), self.v(neg_v)
        score = F.logsigmoid(torch.sum(torch.mul(emb_u, emb_v), dim=1).clamp(max=10, min=-10))
        neg_score = torch.bmm(neg, emb_u.unsqueeze(2)).squeeze()
        neg_score = torch.sum(F.logsigmoid(-1 * torch.clamp(neg_score, max=10, min=-10)), dim=1)
        return -1 * torch.mean(score + neg_score)


skip = SkipGram(10, 6)
seeded(torch, skip)
optimizer = optim.SGD(skip.parameters(), lr=0.5)
u, v, neg = (torch.from_numpy(rng.randint(0, 10, s)) for s in ((16,), (16,), (16, 3)))
for _ in range(4):
    optimizer.zero_grad()
    loss = skip(u, v, neg)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
normed = skip.u.weight / skip.u.weight.norm(dim=-1, keepdim=True)
losses.append((normed @ normed.t()).fill_diagonal_(0).max().item() if hasattr(normed, "fill_diagonal_") else (normed @ normed.t() - 2 * torch.eye(10)).max().item())


# DCGAN: initial values by the name of a class, transposed convolutions.
def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


netG = nn.Sequential(
    nn.ConvTranspose2d(4, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True), nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh()
)
netD = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(8, 1, 4, 1, 0, bias=False), nn.Sigmoid())
netG.apply(weights_init)
netD.apply(weights_init)
seeded(torch, netG), seeded(torch, netD, 1)
optimizerD, optimizerG = (optim.Adam(n.parameters(), lr=0.002, betas=(0.5, 0.999)) for n in (netD, netG))
real_cpu = torch.from_numpy(pictures(8)[0]) * 2 - 1
for _ in range(3):
    netD.zero_grad()
    label = torch.full((real_cpu.size(0),), 1.0, dtype=torch.float, device=device)
    errD_real = nn.BCELoss()(netD(real_cpu).view(-1), label)
    errD_real.backward()
    fake = netG(torch.from_numpy(rng.randn(8, 4, 1, 1).astype(np.float32)))
    label.fill_(0.0)
    errD_fake = nn.BCELoss()(netD(fake.detach()).view(-1), label)
    errD_fake.backward()
    optimizerD.step()
    netG.zero_grad()
    label.fill_(1.0)
    errG = nn.BCELoss()(netD(fake).view(-1), label)
    errG.backward()
    optimizerG.step()
    losses += [(errD_real + errD_fake).item(), errG.mean().item()]


# Style transfer: the picture is what is trained, by LBFGS.
def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


conv = seeded(torch, nn.Conv2d(1, 4, 3, padding=1), 2)
for p in conv.parameters():
    p.requires_grad_(False)
content, style = torch.from_numpy(pictures(1)[0]), torch.from_numpy(pictures(1, seed=9)[0])
target, content_target = gram_matrix(conv(style)).detach(), conv(content).detach()
input_img = content.clone()
input_img.requires_grad_(True)
optimizer = optim.LBFGS([input_img], max_iter=4)
run = [0]
while run[0] <= 5:

    def closure():
        with torch.no_grad():
            input_img.clamp_(0, 1)
        optimizer.zero_grad()
        features = conv(input_img)
        loss = 100 * F.mse_loss(gram_matrix(features), target) + F.mse_loss(features, content_target)
        loss.backward()
        run[0] += 1
        return loss

    losses.append(optimizer.step(closure).item())
with torch.no_grad():
    input_img.clamp_(0, 1)


# Diffusion: a schedule of noise, embeddings of time, a step back.
def extract(a, t, x_shape):
    out = a.gather(-1, t.cpu())
    return out.reshape(t.shape[0], *((1,) * (len(x_shape) - 1))).to(t.device)


class Denoiser(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.dim, self.time = dim, nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.inp, self.out = nn.Conv2d(1, dim, 3, padding=1), nn.Conv2d(dim, 1, 3, padding=1)
        self.norm = nn.GroupNorm(2, dim)

    def forward(self, x, t):
        half = self.dim // 2
        emb = torch.exp(torch.arange(half, device=t.device) * -(math.log(10000) / (half - 1)))
        emb = t[:, None] * emb[None, :]
        emb = self.time(torch.cat((emb.sin(), emb.cos()), dim=-1))
        h = F.silu(self.norm(self.inp(x)) + emb[:, :, None, None])
        return self.out(h)


timesteps = 20
betas = torch.linspace(0.0001, 0.02, timesteps)
alphas = 1.0 - betas
alphas_cumprod = torch.cumprod(alphas, axis=0)
alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
posterior_variance = betas * (1.0 - alphas_cumprod_prev) / (1.0 - alphas_cumprod)
denoiser = seeded(torch, Denoiser())
optimizer = optim.AdamW(denoiser.parameters(), lr=1e-2)
x_start = torch.from_numpy(pictures(8)[0])
for step in range(4):
    t = torch.from_numpy(rng.randint(0, timesteps, 8)).long()
    noise = torch.from_numpy(rng.randn(8, 1, 8, 8).astype(np.float32))
    x_noisy = extract(torch.sqrt(alphas_cumprod), t, x_start.shape) * x_start + extract(torch.sqrt(1.0 - alphas_cumprod), t, x_start.shape) * noise
    loss = F.smooth_l1_loss(noise, denoiser(x_noisy, t))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with torch.no_grad():
    t = torch.full((8,), timesteps - 1, dtype=torch.long)
    mean = extract(torch.sqrt(1.0 / alphas), t, x_noisy.shape) * (x_noisy - extract(betas, t, x_noisy.shape) * denoiser(x_noisy, t) / extract(torch.sqrt(1.0 - alphas_cumprod), t, x_noisy.shape))
    losses.append((mean + torch.sqrt(extract(posterior_variance, t, mean.shape)) * noise).std().item())

# PPO's loss, generalized advantages, value clipping.
actor, critic = seeded(torch, nn.Linear(4, 2)), seeded(torch, nn.Linear(4, 1), 1)
obs = torch.Tensor(rng.randn(12, 4))
actions, rewards = torch.LongTensor(rng.randint(0, 2, 12)), torch.FloatTensor(rng.rand(12))
with torch.no_grad():
    old_logprob = F.log_softmax(actor(obs), dim=-1).gather(1, actions.unsqueeze(-1)).squeeze(-1)
    values = critic(obs).flatten()
    advantages, lastgaelam = torch.zeros_like(rewards), 0
    for t in reversed(range(11)):
        delta = rewards[t] + 0.99 * values[t + 1] - values[t]
        advantages[t] = lastgaelam = delta + 0.99 * 0.95 * lastgaelam
    returns = advantages + values
optimizer = optim.Adam([{"params": actor.parameters()}, {"params": critic.parameters(), "lr": 0.02}], lr=0.01, eps=1e-5)
for update in range(3):
    optimizer.param_groups[0]["lr"] = 0.01 * (1.0 - update / 3)
    for mb_inds in np.split(np.arange(12), 3):
        logits = actor(obs[mb_inds])
        newlogprob = F.log_softmax(logits, dim=-1)[torch.arange(4), actions[mb_inds]]
        ratio = (newlogprob - old_logprob[mb_inds]).exp()
        adv = advantages[mb_inds]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
        newvalue = critic(obs[mb_inds]).view(-1)
        v_clipped = values[mb_inds] + torch.clamp(newvalue - values[mb_inds], -0.2, 0.2)
        v_loss = 0.5 * torch.max((newvalue - returns[mb_inds]) ** 2, (v_clipped - returns[mb_inds]) ** 2).mean()
        probs = F.softmax(logits, dim=-1)
        entropy = -(probs * probs.log()).sum(-1).mean()
        loss = pg_loss - 0.01 * entropy + v_loss * 0.5
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(list(actor.parameters()) + list(critic.parameters()), 0.5)
        optimizer.step()
    losses.append(loss.item())


# Mixup, focal loss, label smoothing and cosine classifiers on pictures.
class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=None, reduction="mean"):
        super().__init__()
        self.gamma, self.alpha, self.reduction = gamma, alpha, reduction

    def forward(self, input, target):
        logpt = F.log_softmax(input, dim=1)
        logpt = logpt.gather(1, target.view(-1, 1)).view(-1)
        pt = Variable(logpt.data.exp())
        loss = -1 * (1 - pt) ** self.gamma * logpt
        return loss.mean() if self.reduction == "mean" else loss.sum()


x, y = map(torch.from_numpy, pictures(32))
x = x.view(32, -1)
model = seeded(torch, nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.PReLU(), nn.Linear(16, 4)))
optimizer = optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-4)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=6)
for step in range(6):
    lam, index = float(rng.beta(1, 1)), torch.from_numpy(rng.permutation(32))
    out = model(lam * x + (1 - lam) * x[index, :])
    loss = lam * FocalLoss()(out, y) + (1 - lam) * nn.CrossEntropyLoss(label_smoothing=0.1)(out, y[index])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
confusion = torch.zeros(4, 4, dtype=torch.int64)
for t, p in zip(y.view(-1), model.eval()(x).argmax(1).view(-1)):
    confusion[t.long(), p.long()] += 1
losses += (confusion.diag().float() / confusion.sum(1).clamp(min=1)).tolist()
