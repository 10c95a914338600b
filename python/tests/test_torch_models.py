"""Model definitions in PyTorch's usual style run unchanged, with PyTorch's outputs and losses for PyTorch's weights."""

import numpy as np
import pytest

import talweg as tw

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests")

RESNET = '''
def conv3x3(i, o, stride=1):
    return nn.Conv2d(i, o, kernel_size=3, stride=stride, padding=1, bias=False)

class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None, norm_layer=None):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inplanes = 8
        self.conv1 = nn.Conv2d(3, 8, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(BasicBlock, 8, 1)
        self.layer2 = self._make_layer(BasicBlock, 16, 2, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 5)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, block, planes, blocks, stride=1):
        downsample = None
        if stride != 1 or self.inplanes != planes:
            downsample = nn.Sequential(nn.Conv2d(self.inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        layers = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes
        layers += [block(planes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(x, 1))
'''

MOBILENET = '''
class ConvBNReLU(nn.Sequential):
    def __init__(self, i, o, kernel_size=3, stride=1, groups=1):
        padding = (kernel_size - 1) // 2
        super().__init__(
            nn.Conv2d(i, o, kernel_size, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(o), nn.ReLU6(inplace=True)
        )

class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand_ratio):
        super().__init__()
        hidden = int(round(inp * expand_ratio))
        self.use_res_connect = stride == 1 and inp == oup
        layers = []
        if expand_ratio != 1:
            layers.append(ConvBNReLU(inp, hidden, kernel_size=1))
        layers.extend([
            ConvBNReLU(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, oup, 1, 1, 0, bias=False),
            nn.BatchNorm2d(oup),
        ])
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)

class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()
        self.features = nn.Sequential(ConvBNReLU(3, 8, stride=2), InvertedResidual(8, 8, 1, 1), InvertedResidual(8, 12, 2, 2), InvertedResidual(12, 12, 1, 2))
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(12, 5))

    def forward(self, x):
        x = self.features(x)
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1))
        return self.classifier(torch.flatten(x, 1))
'''

UNET = '''
class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1, padding_mode="reflect"), nn.InstanceNorm2d(o, affine=True), nn.LeakyReLU(0.1, inplace=True),
        )

    def forward(self, x):
        return self.net(x)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = DoubleConv(3, 4), DoubleConv(4, 8)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(8, 4, kernel_size=2, stride=2)
        self.up_plain = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv = DoubleConv(8 + 8, 4)
        self.head = nn.Conv2d(4, 5, kernel_size=1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        x = torch.cat([a, self.up(b), self.up_plain(b)], dim=1)
        x = self.head(self.conv(x))
        return F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1)
'''

VIT = '''
class Attention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(0.0))

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))

class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim, eps=1e-6), Attention(dim)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(approximate="tanh"), nn.Linear(dim * 4, dim))
        self.gamma = nn.Parameter(1e-1 * torch.ones(dim))

    def forward(self, x):
        x = x + self.gamma * self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))

class Model(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, kernel_size=8, stride=8)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 17, dim))
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(2)])
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True), num_layers=1)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        cls = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls, x), dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(self.encoder(x))[:, 0])
'''

LSTM_LM = '''
class Model(nn.Module):
    def __init__(self, ntoken=11, ninp=8, nhid=8, nlayers=2):
        super().__init__()
        self.drop = nn.Dropout(0.0)
        self.encoder = nn.Embedding(ntoken, ninp, padding_idx=0)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=0.0, batch_first=True)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight
        self.nlayers, self.nhid = nlayers, nhid
        self.init_weights()

    def init_weights(self):
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, x):
        weight = next(self.parameters())
        hidden = (torch.zeros(self.nlayers, x.shape[0], self.nhid), torch.zeros(self.nlayers, x.shape[0], self.nhid))
        output, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        return self.decoder(output).reshape(-1, 11)
'''

GPT = '''
import math

class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)

class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd, bias=False), nn.Linear(n_embd, n_embd, bias=False)
        self.n_head, self.n_embd = n_head, n_embd
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(C // self.n_head))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        y = y + F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))

class Block(nn.Module):
    def __init__(self, n_embd, n_head, block):
        super().__init__()
        self.ln_1, self.attn = LayerNorm(n_embd, bias=False), CausalSelfAttention(n_embd, n_head, block)
        self.ln_2 = LayerNorm(n_embd, bias=True)
        self.mlp = nn.ModuleDict(dict(c_fc=nn.Linear(n_embd, 4 * n_embd), c_proj=nn.Linear(4 * n_embd, n_embd), act=nn.GELU()))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        m = self.mlp
        return x + m.c_proj(m.act(m.c_fc(self.ln_2(x))))

class Model(nn.Module):
    def __init__(self, vocab=11, block=6, n_embd=8):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocab, n_embd), wpe=nn.Embedding(block, n_embd), drop=nn.Dropout(0.0),
            h=nn.ModuleList([Block(n_embd, 2, block) for _ in range(2)]), ln_f=LayerNorm(n_embd, bias=False),
        ))
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for pn, p in self.named_parameters():
            if pn.endswith("c_proj.weight"):
                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(4))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx):
        pos = torch.arange(0, idx.shape[1], dtype=torch.int64)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x)).reshape(-1, 11)
'''

DLRM = '''
class Model(nn.Module):
    def __init__(self, m=4):
        super().__init__()
        self.emb = nn.ModuleList([nn.EmbeddingBag(n, m, mode="sum", sparse=True) for n in (5, 7, 11)])
        self.bot = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, m), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(m + 6, 8), nn.ReLU(), nn.Linear(8, 5))

    def forward(self, dense):
        index = (dense.abs() * 2).long().clamp(0, 4)
        offsets = torch.arange(dense.shape[0])
        x = self.bot(dense)
        ly = [x] + [e(index[:, k], offsets) for k, e in enumerate(self.emb)]
        T = torch.cat(ly, dim=1).view((dense.shape[0], -1, x.shape[1]))
        Z = torch.bmm(T, torch.transpose(T, 1, 2))
        li = torch.tensor([i for i in range(4) for j in range(i)])
        lj = torch.tensor([j for i in range(4) for j in range(i)])
        return self.top(torch.cat([x, Z[:, li, lj]], dim=1))
'''

PICTURES = np.random.default_rng(0).standard_normal((4, 3, 32, 32)).astype("f4")
WORDS = np.random.default_rng(1).integers(1, 11, (4, 6))
DENSE = np.random.default_rng(2).standard_normal((4, 3)).astype("f4")
CASES = {
    "resnet": (RESNET, PICTURES, "SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4)"),
    "mobilenet": (MOBILENET, PICTURES, "RMSprop(p, lr=0.001, momentum=0.9)"),
    "unet": (UNET, PICTURES[:, :, :16, :16], "Adam(p, lr=0.01)"),
    "vit": (VIT, PICTURES, "AdamW(p, lr=0.003, betas=(0.9, 0.95))"),
    "lstm": (LSTM_LM, WORDS, "Adam(p, lr=0.01)"),
    "gpt": (GPT, WORDS, "AdamW(p, lr=0.003, betas=(0.9, 0.95), weight_decay=0.1)"),
    "dlrm": (DLRM, DENSE, "SGD(p, lr=0.1)"),
}


def model(library, source):
    space = {"torch": library, "nn": library.nn, "F": library.nn.functional, "__name__": "model"}
    exec(source, space)
    return space["Model"]()


@pytest.mark.parametrize("name", CASES)
def test_models_train_to_pytorchs_losses(name):
    source, x, optimizer = CASES[name]
    theirs, ours = model(torch, source), model(tw, source)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(theirs.state_dict())
    classes = np.random.default_rng(3).integers(0, 5, theirs(torch.tensor(x)).shape[0])
    ours.load_state_dict(theirs.state_dict())
    losses = {}
    for library, net in ((torch, theirs), (tw, ours)):
        o = eval(f"optim.{optimizer}", {"optim": library.optim, "p": net.parameters()})
        s = library.optim.lr_scheduler.CosineAnnealingLR(o, T_max=10)
        loss_fn = library.nn.CrossEntropyLoss(label_smoothing=0.1)
        seen = []
        for _ in range(4):
            o.zero_grad(set_to_none=True)
            loss = loss_fn(net(library.tensor(x)), library.tensor(classes))
            loss.backward()
            library.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
            o.step()
            s.step()
            seen.append(loss.item())
        net.eval()
        with library.no_grad():
            seen.append(float(net(library.tensor(x)).abs().mean()))
        losses[library] = seen
    np.testing.assert_allclose(losses[tw], losses[torch], rtol=5e-3)
    assert losses[tw][3] < losses[tw][0]
