"""A program for mypy, not for Python: what types it sees, and mistakes that it must find."""

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader

x = tw.randn(3, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = tw.optim.Adam(model.parameters(), lr=0.1)
reveal_type(x @ x.T + 1)  # talweg.Tensor
reveal_type(x.shape)  # talweg._size.Size
reveal_type(x.size(0))  # Any
reveal_type(x.max(1))  # Any
reveal_type(x.device)  # talweg._device.device
reveal_type(model(x))  # talweg.Tensor
reveal_type(nn.functional.relu(x))  # talweg.Tensor
reveal_type(tw.linalg.inv(x))  # talweg.Tensor
reveal_type(tw.cat([x, x]))  # talweg.Tensor
reveal_type(nn.LSTM(3, 4)(x))  # tuple[talweg.Tensor, tuple[talweg.Tensor, talweg.Tensor]]
reveal_type(optimizer.state_dict())  # dict[str, Any]
reveal_type(tw.train.Trainer(model, optimizer, DataLoader((x,))).fit(lambda x: model(x).sum()))  # talweg.train.history.History
reveal_type(tw.fft.rfft(x, n=4))  # talweg.Tensor
reveal_type(tw.nn.CrossEntropyLoss(label_smoothing=0.1))  # talweg.nn.layers.loss.CrossEntropyLoss
reveal_type(nn.functional.conv2d(x, x, stride=2))  # talweg.Tensor
reveal_type(nn.ELU(0.5, inplace=True)(x))  # talweg.Tensor
nn.Linear("4", 8)  # wrong: a word for a number
nn.ELU("0.5")  # wrong: a word for a number
nn.MaxPool2d(2, strides=2)  # wrong: another library's spelling
nn.functional.conv2d(x)  # wrong: no weights
nn.functional.max_pool2d(x, "2")  # wrong: a word for a number
x.no_such_method()  # wrong: there is none
tw.zeros(2, dtype=3.5)  # wrong: no type
tw.linalg.solve(x)  # wrong: one matrix alone
