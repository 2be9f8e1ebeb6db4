"""A discriminator at every batch and a generator at every fifth, in the style of WGAN-GP in eriklindernoren/PyTorch-GAN."""

import own_clock
import torch
from torch import nn

BATCHES, GENERATOR_EVERY, BATCH, LATENT, PIXELS = 60, 5, 64, 100, 28 * 28


def gradient_penalty(discriminator, real, fake):
    mixed = torch.lerp(real, fake, torch.rand(BATCH, 1)).requires_grad_()
    (gradients,) = torch.autograd.grad(discriminator(mixed).sum(), mixed, create_graph=True)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def main() -> None:
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(LATENT, 512), nn.LeakyReLU(0.2), nn.Linear(512, PIXELS), nn.Tanh())
    discriminator = nn.Sequential(nn.Linear(PIXELS, 512), nn.LeakyReLU(0.2), nn.Linear(512, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    own_clock.training_begins()
    for batch in range(BATCHES):
        real, latent = torch.randn(BATCH, PIXELS), torch.randn(BATCH, LATENT)
        optimizer_d.zero_grad()
        fake = generator(latent).detach()
        loss_d = discriminator(fake).mean() - discriminator(real).mean() + 10 * gradient_penalty(discriminator, real, fake)
        loss_d.backward()
        optimizer_d.step()
        own_clock.step_ends(loss_d.item())
        if batch % GENERATOR_EVERY == 0:
            optimizer_g.zero_grad()
            loss_g = -discriminator(generator(latent)).mean()
            loss_g.backward()
            optimizer_g.step()


if __name__ == "__main__":
    main()
