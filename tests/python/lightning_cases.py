"""Lightning's Trainer with strategy="colossal" beside strategy="ddp", on the ranks that torchrun starts: the same losses.

  python -m torch.distributed.run --standalone --nproc-per-node=2 lightning_cases.py
"""
import importlib.util
import logging
import sys
import unittest

import torch

if importlib.util.find_spec("lightning") is None:
    print("skipped: the package lightning is not installed")
    sys.exit()

import lightning  # noqa: E402

import colossal  # noqa: E402
import colossal.lightning  # noqa: E402  (registers the strategy)


class Module(lightning.LightningModule):
    """zero: of boost(); None: trains without the engine"""

    def __init__(self, zero=None):
        super().__init__()
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 17), torch.nn.GELU(), torch.nn.Linear(17, 3)).double()
        self.zero, self.losses = zero, []

    def training_step(self, batch, _number):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True)
        self.losses.append(self.trainer.strategy.reduce(loss.detach().clone(), reduce_op="mean").item())
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2)
        return optimizer if self.zero is None else colossal.boost(self.net, optimizer, zero=self.zero)[1]


def train(module, strategy, **settings):
    generator = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(64, 6, generator=generator, dtype=torch.float64),
                                          torch.randint(0, 3, (64,), generator=generator))
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy=strategy, max_epochs=2, accumulate_grad_batches=2, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, **settings)
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=4))
    return module.losses


class Lightning(unittest.TestCase):
    def test_trains_as_with_ddp(self):
        expected = train(Module(), "ddp")
        for zero in (0, 1, 3):
            with self.subTest(zero=zero):
                torch.testing.assert_close(train(Module(zero), "colossal"), expected, rtol=1e-9, atol=0)
                self.assertEqual(torch.distributed.get_backend(), "colossal")

    def test_refusals(self):
        with self.assertRaisesRegex(ValueError, "pass max_grad_norm"):
            train(Module(0), "colossal", gradient_clip_val=1.0)
        with self.assertRaisesRegex(ValueError, "no model of this module is boosted"):
            train(Module(), "colossal")


if __name__ == "__main__":
    logging.getLogger("lightning").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
