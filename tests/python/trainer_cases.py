"""colossal.transformers.Trainer, and the Trainer of transformers on a boosted model, beside the Trainer with
DistributedDataParallel: the same curves with accumulation, clipping, a schedule and evaluation; checkpoints go on.

  python -m torch.distributed.run --standalone --nproc-per-node=2 trainer_cases.py
"""
import unittest

import torch
import torch.distributed
import transformers

import colossal
import colossal.transformers
from architectures import VOCABULARY, model_of
from ranks import shared_directory


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows, seed):
        generator = torch.Generator().manual_seed(seed)
        self.rows = torch.randint(3, VOCABULARY, (rows, 9), generator=generator)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class Curve(transformers.TrainerCallback):
    """What the Trainer logs, without its rounding."""

    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs=None, **options):
        for key in ("loss", "grad_norm", "learning_rate", "eval_loss"):
            if key in logs:
                self.seen.append((key, float(logs[key])))


def arguments(directory, **changes):
    return transformers.TrainingArguments(**{
        "output_dir": directory, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 6,
        "learning_rate": 1e-2, "weight_decay": 0.1, "warmup_steps": 2, "lr_scheduler_type": "cosine", "max_grad_norm": 0.5,
        "logging_steps": 1, "eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 4, "use_cpu": True,
        "report_to": [], "disable_tqdm": True, "seed": 5, "ddp_backend": "gloo", "dataloader_pin_memory": False, **changes})


def run(kind, model, args, resume=None, **options):
    curve = Curve()
    trainer = kind(model=model, args=args, train_dataset=Rows(64, 1), eval_dataset=Rows(6, 2), callbacks=[curve], **options)
    trainer.train(resume_from_checkpoint=resume)
    return trainer, curve.seen


class Trainers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        model = model_of("llama")
        cls.directory = shared_directory()
        _, cls.expected = run(transformers.Trainer, model, arguments(f"{cls.directory}/plain", save_strategy="no"))
        cls.weights = model.state_dict()

    def assert_same(self, found, model, steps=None):
        expected = self.expected if steps is None else self.expected[-len(found):]
        self.assertEqual([key for key, _ in found], [key for key, _ in expected])
        torch.testing.assert_close([value for _, value in found], [value for _, value in expected], rtol=1e-6, atol=0)
        with colossal.gather(model):
            for key, value in model.state_dict().items():
                torch.testing.assert_close(value, self.weights[key], rtol=0, atol=1e-7, msg=lambda text, key=key: f"{key}: {text}")

    def test_trainer_of_transformers(self):
        """Two lines more than without the engine."""
        for zero in (0, 1, 3):
            with self.subTest(zero=zero):
                model = model_of("llama")
                decay = transformers.Trainer.get_decay_parameter_names(None, model)
                optimizer = torch.optim.AdamW([
                    {"params": [p for name, p in model.named_parameters() if name in decay], "weight_decay": 0.1},
                    {"params": [p for name, p in model.named_parameters() if name not in decay], "weight_decay": 0.0}], lr=1e-2)
                model, optimizer = colossal.boost(model, optimizer, zero=zero)
                _, found = run(transformers.Trainer, model, arguments(f"{self.directory}/{zero}", save_strategy="no"),
                               optimizers=(optimizer, None))
                self.assert_same(found, model)

    def test_checkpoints_go_on_at_another_stage(self):
        for zero, later in ((3, 1), (0, 3)):
            with self.subTest(zero=zero, later=later):
                directory = f"{self.directory}/from-{zero}"
                model = model_of("llama")
                trainer, found = run(colossal.transformers.Trainer, model, arguments(directory), boost={"zero": zero})
                self.assert_same(found, model)
                checkpoint = f"{directory}/checkpoint-4"
                opened = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float64)
                self.assertEqual(opened.dtype, torch.float64)
                model = model_of("llama")
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.zero_()  # the weights come from the checkpoint
                trainer, found = run(colossal.transformers.Trainer, model, arguments(directory), checkpoint, boost={"zero": later})
                self.assert_same(found, model, steps=2)
                trainer.save_model(f"{directory}/final")
                opened = transformers.AutoModelForCausalLM.from_pretrained(f"{directory}/final", dtype=torch.float64)
                with colossal.gather(model):
                    torch.testing.assert_close(opened.state_dict(), model.state_dict(), rtol=0, atol=0)

    def test_refuses_what_would_not_reach_the_engine(self):
        with self.assertRaisesRegex(ValueError, "would not reach the engine"):
            colossal.transformers.Trainer(model=model_of("llama"), args=arguments(self.directory, bf16=True, eval_strategy="no"), boost={})


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    unittest.main(verbosity=2)
