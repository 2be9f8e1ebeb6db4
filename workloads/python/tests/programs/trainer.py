"""Lightning's Trainer, which does forward and backward pass in a closure of the optimizer, with two micro-batches a step."""

import lightning
import own_clock
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    def training_step(self, batch, index):
        inputs, labels = batch
        return nn.functional.cross_entropy(self.model(inputs), labels)

    def validation_step(self, batch, index):
        inputs, labels = batch
        self.log("right", (self.model(inputs).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters())
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


class OwnClock(lightning.Callback):
    def on_train_start(self, trainer, module) -> None:
        own_clock.training_begins()
        self.steps = 0

    def on_train_batch_end(self, trainer, module, outputs, batch, index) -> None:
        if trainer.global_step > self.steps:
            self.steps = trainer.global_step
            own_clock.step_ends(outputs["loss"].item())


def main() -> None:
    lightning.seed_everything(0, verbose=False)
    data = TensorDataset(torch.randn(40 * 128, 512), torch.randint(10, (40 * 128,)))
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=3, accumulate_grad_batches=2, callbacks=[OwnClock()], **quiet
    )
    trainer.fit(Classifier(), DataLoader(data, 128, shuffle=True), DataLoader(data, 256))


if __name__ == "__main__":
    main()
