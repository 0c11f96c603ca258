"""Programs as people write them, beyond the matrix: what each yields must have equal bits.

A program takes an empty directory and gives a list of numbers and tensors. Tensors that matter are
large enough to move (64 KiB and more).
"""

import copy
import functools
import io
import threading

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, jvp, stack_module_state, vmap
from torch.nn.utils import parametrizations, rnn
from torch.utils._pytree import tree_leaves

from matrix.subclasses import Bag, Counting, Pair, Tagged

WIDTH = 192


def mlp(*widths, activation=nn.Tanh):
    layers = []
    for place in range(len(widths) - 1):
        layers += [nn.Linear(widths[place], widths[place + 1]), activation()]
    return nn.Sequential(*layers[:-1])


def state_of(*modules):
    return [value for module in modules for value in module.state_dict().values()]


def wgan_with_gradient_penalty(directory):
    """Two optimizers, a gradient of a gradient, and an average of the generator's weights."""
    generator, critic = mlp(64, WIDTH, WIDTH, WIDTH), mlp(WIDTH, WIDTH, WIDTH, 1)
    average = copy.deepcopy(generator).requires_grad_(False)
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    of_critic = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    losses = []
    for _ in range(5):
        for _ in range(2):
            real, fake = torch.randn(128, WIDTH), generator(torch.randn(128, 64)).detach()
            mixed = torch.lerp(real, fake, torch.rand(128, 1)).requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            penalty = (slope.norm(dim=1) - 1).square().mean()
            loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
            of_critic.zero_grad()
            loss.backward()
            of_critic.step()
        of_generator.zero_grad()
        loss = -critic(generator(torch.randn(128, 64))).mean()
        loss.backward()
        of_generator.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), generator.parameters(), strict=True):
                old.lerp_(new, 0.1)
        losses.append(loss.item())
    return losses + state_of(generator, critic, average)


def lbfgs_with_closures(directory):
    model = mlp(WIDTH, WIDTH, WIDTH, 16)
    inputs, targets = torch.randn(64, WIDTH), torch.randn(64, 16)
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=4, history_size=5, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(5)] + state_of(model)


def per_sample_gradients_and_ensembles(directory):
    """torch.func: clipped gradients of samples, a directional derivative, a vmapped ensemble."""
    model = mlp(64, WIDTH, WIDTH, 8)
    parameters = {name: p.detach().clone() for name, p in model.named_parameters()}

    def loss_of(parameters, sample, target):
        output = functional_call(model, parameters, (sample.unsqueeze(0),))
        return F.cross_entropy(output, target.unsqueeze(0))

    yields = []
    for _ in range(4):
        samples, targets = torch.randn(16, 64), torch.randint(8, (16,))
        gradients = vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, samples, targets)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        scale = (1 / norms).clamp(max=1)
        for name, gradient in gradients.items():
            parameters[name] -= 0.1 * torch.einsum("b,b...->...", scale, gradient) / 16
        direction = {name: torch.ones_like(p) for name, p in parameters.items()}
        along = functools.partial(loss_of, sample=samples[0], target=targets[0])
        value, slope = jvp(along, (parameters,), (direction,))
        yields += [norms, value, slope]
    members = [mlp(64, WIDTH, 8) for _ in range(4)]
    stacked, buffers = stack_module_state(members)
    outputs = vmap(lambda p, b, x: functional_call(members[0], (p, b), (x,)), in_dims=(0, 0, None))(
        stacked, buffers, samples
    )
    return yields + [outputs, *parameters.values()]


class ScaleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.mark_dirty(x)
        ctx.save_for_backward(scale)
        ctx.rows = x.shape[0]
        return x.mul_(scale)

    @staticmethod
    def backward(ctx, gradient):
        (scale,) = ctx.saved_tensors
        return gradient * scale, (gradient / ctx.rows).sum(0)


def own_functions_and_hooks(directory):
    """Functions of one's own, hooks everywhere, and an optimizer step inside backward."""
    model = mlp(WIDTH, WIDTH, WIDTH, WIDTH)
    scale = nn.Parameter(torch.ones(WIDTH))
    seen = []
    model[0].register_forward_hook(lambda m, args, out: out * 1.5)
    model[2].register_full_backward_hook(lambda m, gi, go: (gi[0] * 0.5,))
    model[4].register_forward_pre_hook(lambda m, args: (args[0] + 0.25,))
    optimizers = {p: torch.optim.AdamW([p], lr=1e-3) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(6):
        hidden = ScaleInPlace.apply(model(torch.randn(96, WIDTH)).clone(), scale)
        hidden.register_hook(lambda g: seen.append(g.norm()) or g * 2)
        packs = torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t * 1)
        with packs, torch.autograd.graph.save_on_cpu():
            loss = (hidden * hidden.sigmoid()).square().mean()
        loss.backward()
        with torch.no_grad():
            scale -= 0.1 * scale.grad
        scale.grad = None
        seen.append(loss)
    return seen + state_of(model) + [scale]


def sparse_gradients_and_graphs(directory):
    """Sparse embeddings with SparseAdam and Adagrad, and adjacency matrices in two layouts."""
    words = nn.Embedding(2000, 64, sparse=True)
    bags = nn.EmbeddingBag(2000, 64, mode="sum", sparse=True)
    dense = mlp(128, WIDTH, 64)
    edges = torch.randint(512, (2, 20_000))
    adjacency = torch.sparse_coo_tensor(edges, torch.rand(20_000), (512, 512)).coalesce()
    compressed = adjacency.to_sparse_csr()
    optimizers = [
        torch.optim.SparseAdam(words.parameters()),
        torch.optim.Adagrad(bags.parameters(), lr=0.1),
        torch.optim.SGD(dense.parameters(), lr=0.1, momentum=0.9),
    ]
    losses = []
    for step in range(5):
        tokens = torch.randint(2000, (512, 40))
        features = torch.cat((words(tokens).mean(1), bags(tokens)), dim=1)
        hidden = dense(features)
        spread = compressed @ hidden if step % 2 else torch.sparse.mm(adjacency, hidden)
        loss = spread.square().mean() + hidden.mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        losses.append(words.weight.grad.coalesce().values().sum().item())
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    weighted = torch.sparse.softmax(adjacency, dim=1).to_dense()
    return losses + state_of(words, bags, dense) + [weighted, compressed.values()]


def spectra(directory):
    """Complex parameters, Fourier transforms, and lazily conjugated tensors that become arrays."""
    weight = nn.Parameter(torch.randn(8, 129, dtype=torch.complex64) / 8)
    mixing = nn.Parameter(torch.randn(8, 8, dtype=torch.complex64) / 8)
    optimizer = torch.optim.Adam([weight, mixing], lr=1e-2)
    yields, arrays = [], []
    for _ in range(5):
        signal = torch.randn(16, 8, 256)
        spectrum = torch.einsum("bcf,cd->bdf", torch.fft.rfft(signal) * weight, mixing)
        output = torch.fft.irfft(spectrum, n=256)
        loss = (output - signal.flip(-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        conjugate = spectrum.detach().conj()
        arrays += [conjugate.numpy(force=True), conjugate.imag.numpy(force=True)]
        arrays.append(torch.view_as_real(spectrum.detach()).numpy())
        yields.append(loss.item())
    return yields + [weight, mixing] + [torch.from_numpy(array.copy()) for array in arrays]


def quantized_teacher(directory):
    """A student learns from a quantized copy; int8 tensors by channel, and fake quantization."""
    teacher, student = mlp(128, WIDTH, 20_000), mlp(128, WIDTH, 20_000)
    packed = torch.ao.quantization.quantize_dynamic(teacher, {nn.Linear}, dtype=torch.qint8)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
    yields = []
    for _ in range(4):
        inputs = torch.randn(16, 128)
        with torch.no_grad():
            targets = packed(inputs)
        loss = F.mse_loss(student(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yields.append(loss.item())
    weight = student[2].weight.detach()
    scales = weight.abs().amax(1) / 127
    zeros = torch.zeros(20_000, dtype=torch.long)
    by_channel = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    bytes_ = torch.clamp(weight / scales[:, None], -128, 127).round().to(torch.int8)
    fake = torch.fake_quantize_per_tensor_affine(weight, 0.01, 0, -128, 127)
    return yields + [
        by_channel.dequantize(),
        by_channel.int_repr(),
        bytes_,
        fake,
        student[0].weight,
    ]


def storages_by_hand(directory):
    """Views on one flat buffer, set_, resize_, slices of a storage, and functions per element."""
    model = mlp(WIDTH, WIDTH, WIDTH)
    parameters = list(model.parameters())
    flat = torch.cat([p.detach().flatten() for p in parameters])
    gradients = torch.zeros_like(flat)
    offset = 0
    for p in parameters:
        size = p.numel()
        p.data = flat[offset : offset + size].view_as(p)
        p.grad = gradients[offset : offset + size].view_as(p)
        offset += size
    yields = []
    table = torch.arange(40_000.0)
    bytes_ = table.untyped_storage()[: 4 * 20_000]  # the same memory under another storage
    first = torch.empty(0).set_(bytes_)
    for step in range(5):
        gradients.zero_()
        loss = model(torch.randn(64, WIDTH)).square().mean()
        loss.backward()
        flat.add_(gradients, alpha=-0.1)
        table.add_(1)
        table.apply_(lambda x: -x)
        table.map_(table.clone(), lambda x, y: x + 2 * y)
        flat.norm(), gradients.norm()
        yields += [loss.item(), first.sum().item(), table[20_000:].sum()]
        scratch = torch.ones(30_000)
        scratch.set_(torch.full((50_000,), 2.0 + step))
        scratch.resize_(20_000).mul_(3)
        scratch.untyped_storage().resize_(4 * 25_000)
        yields.append(scratch * 1)
    swapped = table.clone()
    swapped.untyped_storage().byteswap(torch.float32)
    swapped = swapped * 1
    swapped.untyped_storage().byteswap(torch.float32)
    return yields + state_of(model) + [table, swapped]


def saved_in_the_middle(directory):
    """Checkpoints of several kinds in the middle, loaded back in several ways."""
    torch.manual_seed(3)
    model = mlp(WIDTH, WIDTH, WIDTH, WIDTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=20)
    losses = []

    def steps(count):
        for _ in range(count):
            loss = F.gelu(model(torch.randn(64, WIDTH))).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())

    steps(4)
    everything = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "random": torch.get_rng_state(),
    }
    torch.save(everything, directory / "checkpoint.pt")
    snapshot = copy.deepcopy(everything)
    steps(2)
    for name in ("mapped", "assigned", "snapshot", "whole"):
        if name == "snapshot":
            loaded = snapshot
        else:
            loaded = torch.load(directory / "checkpoint.pt", mmap=name == "mapped")
        if name == "whole":
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            other = torch.load(file, weights_only=False)
            losses += state_of(other)
        model.load_state_dict(loaded["model"], assign=name == "assigned")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        optimizer.load_state_dict(loaded["optimizer"])
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=20)
        scheduler.load_state_dict(loaded["scheduler"])
        torch.set_rng_state(loaded["random"])
        steps(2)
    return losses + state_of(model)


def parametrized_and_packed(directory):
    """Weight and spectral norm, orthogonal weights, packed sequences through a GRU."""
    torch.manual_seed(5)
    encoder = parametrizations.weight_norm(nn.Linear(64, WIDTH))
    recurrent = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
    head = parametrizations.spectral_norm(nn.Linear(2 * WIDTH, WIDTH))
    square = parametrizations.orthogonal(nn.Linear(WIDTH, WIDTH, bias=False))
    modules = nn.ModuleList([encoder, recurrent, head, square])
    optimizer = torch.optim.NAdam(modules.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        lengths = torch.randint(3, 12, (16,))
        sequences = rnn.pad_sequence([torch.randn(n, 64) for n in lengths], batch_first=True)
        packed = rnn.pack_padded_sequence(
            encoder(sequences), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = rnn.pad_packed_sequence(recurrent(packed)[0], batch_first=True)
        loss = square(head(states)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + state_of(modules)


def padded_encoder(directory):
    """Evaluation takes the encoder's fast path, which makes nested tensors; and some by hand."""
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
    yields = []
    for _ in range(4):
        inputs = torch.randn(12, 40, WIDTH)
        mask = torch.arange(40)[None] >= torch.randint(10, 40, (12, 1))
        encoder.train()
        loss = encoder(inputs, src_key_padding_mask=mask).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        encoder.eval()
        with torch.no_grad():
            yields.append(encoder(inputs, src_key_padding_mask=mask))
        for layout in (torch.strided, torch.jagged):
            parts = torch.nested.nested_tensor(
                [torch.randn(n, WIDTH) for n in (30, 50, 40)], layout=layout
            )
            yields.append(torch.nested.to_padded_tensor(F.relu(parts * 2), 0.0))
        yields.append(loss.item())
    return yields + state_of(encoder)


def subclasses(directory):
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    base = torch.randn(WIDTH, WIDTH)
    large = base * 2
    counting = Counting(base)
    pair = Pair(torch.randn(WIDTH, WIDTH), torch.zeros(WIDTH, WIDTH))
    bag = Bag({"first": [base + 1], "second": (base * 3,)})
    tagged = torch.randn(64, WIDTH).as_subclass(Tagged)
    yields = []
    for step in range(5):
        loss = model(tagged.doubled()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        counting.add_(step)
        with torch.no_grad():
            counting.mul_(0.5)
        pair.add_(large if step else 1.0)
        bag.mul_(large)
        large = torch.randn(WIDTH, WIDTH)
        yields += [(pair * 2).a.sum().item(), pair.b.norm().item()]
        yields += [part.sum().item() for part in tree_leaves((bag + 1).parts)]
        yields += [loss.item(), (large @ base).sum().item(), (counting + 1).sum().item()]
    return yields + state_of(model) + [base]


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        forked = torch.jit.fork(torch.tanh, x)
        for number, layer in enumerate(self.layers):
            x = torch.relu(layer(x)) if number % 2 == 0 else torch.sigmoid(layer(x)) + x
            if bool(x.mean() > 10.0):
                x = x / 2
        return x + torch.jit.wait(forked)


def scripted(directory):
    model = torch.jit.script(Scripted())
    traced = torch.jit.trace(mlp(WIDTH, WIDTH), torch.zeros(4, WIDTH))
    optimizer = torch.optim.Adam([*model.parameters(), *traced.parameters()], lr=1e-3)
    for _ in range(4):  # TorchScript compiles by what it sees in the first calls
        traced(model(torch.randn(96, WIDTH))).square().mean().backward()
    losses = []
    for _ in range(5):
        loss = traced(model(torch.randn(96, WIDTH))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.jit.save(model, directory / "model.ts")
    loaded = torch.jit.load(directory / "model.ts")
    return losses + state_of(model, traced, loaded)


def backward_in_threads(directory):
    models = [mlp(WIDTH, WIDTH, WIDTH) for _ in range(3)]
    batches = [[torch.randn(64, WIDTH) for _ in range(5)] for _ in models]
    losses = [[] for _ in models]

    def work(number):
        optimizer = torch.optim.AdamW(models[number].parameters(), lr=1e-3)
        for batch in batches[number]:
            loss = models[number](batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[number].append(loss.item())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [loss for part in losses for loss in part] + state_of(*models)


def learning_to_learn(directory):
    """Gradients through the inner steps of two tasks, by functional calls."""
    model = mlp(32, WIDTH, WIDTH, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        for _ in range(2):
            inputs, targets = torch.randn(32, 32), torch.randn(32, 8)
            fast = dict(model.named_parameters())
            for _ in range(2):
                inner = F.mse_loss(functional_call(model, fast, (inputs,)), targets)
                slopes = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
                fast = {k: v - 0.1 * g for (k, v), g in zip(fast.items(), slopes, strict=True)}
            outer = F.mse_loss(functional_call(model, fast, (inputs + 0.1,)), targets)
            outer.backward()
            losses.append(outer.item())
        optimizer.step()
    return losses + state_of(model)


def averaged_weights(directory):
    """Averages of weights by lists, statistics of the batches for them, a plateau schedule."""
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.BatchNorm1d(WIDTH), mlp(WIDTH, WIDTH, WIDTH))
    swa = torch.optim.swa_utils
    average = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9), use_buffers=True)
    plain = swa.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    losses = []
    for _ in range(5):
        loss = model(torch.randn(128, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step(loss)
        average.update_parameters(model)
        plain.update_parameters(model)
        losses.append(loss.item())
    swa.update_bn([torch.randn(64, 64) for _ in range(3)], plain)
    return losses + state_of(model, average, plain)


def arrays_and_capsules(directory):
    """Memory that NumPy and DLPack share, both ways, while training goes on."""
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    noise = torch.zeros(64, WIDTH)
    capsule = torch.utils.dlpack.to_dlpack(noise)
    alias = torch.utils.dlpack.from_dlpack(capsule)
    array = model[0].weight.detach().numpy()
    from_numpy = np.from_dlpack(model[2].weight.detach())
    generator = np.random.default_rng(1)
    yields = []
    for _ in range(5):
        alias.copy_(torch.from_numpy(generator.standard_normal((64, WIDTH), dtype=np.float32)))
        loss = model(noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        array *= 0.99
        yields += [loss.item(), float(from_numpy.sum()), float(array.sum())]
        yields.append(torch.randn(40_000).numpy().mean().item())
    return yields + state_of(model)


def many_models(directory):
    """Models and optimizers come and go: what is dropped takes no room."""
    yields = []
    for fold in range(6):
        torch.manual_seed(fold)
        model = mlp(WIDTH, 4 * WIDTH, WIDTH)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(3):
            loss = model(torch.randn(32, WIDTH)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yields.append(loss.item())
    return yields + state_of(model)


PROGRAMS = {
    function.__name__.replace("_", " "): function
    for function in (
        wgan_with_gradient_penalty,
        lbfgs_with_closures,
        per_sample_gradients_and_ensembles,
        own_functions_and_hooks,
        sparse_gradients_and_graphs,
        spectra,
        quantized_teacher,
        storages_by_hand,
        saved_in_the_middle,
        parametrized_and_packed,
        padded_encoder,
        subclasses,
        scripted,
        backward_in_threads,
        learning_to_learn,
        averaged_weights,
        arrays_and_capsules,
        many_models,
    )
}
