"""colossal.transformers.Trainer: the Trainer of transformers, whose checkpoints the engine writes and resumes.

    trainer = colossal.transformers.Trainer(model, arguments, train_dataset=..., boost={"zero": 3, "dtype": "bf16"})
    trainer.train(resume_from_checkpoint=True)

At zero 0 to 2, the Trainer of transformers works as it is on what colossal.boost() returns, with optimizers=(optimizer, None),
as long as it saves no optimizer (save_only_model=True, or no checkpoints)."""
import os
import shutil

import torch
import torch.distributed
import transformers

from ._boosting import boost as boost_model
from ._boosting import gather
from ._checkpoints import load, save
from ._engine import ConfigError

_ENGINE = "engine"  # the folder, in a checkpoint of the Trainer, of the engine's own
_SCHEDULER = "scheduler.pt"


class Trainer(transformers.Trainer):
    """transformers.Trainer with one more argument.

    boost  the arguments of colossal.boost() other than model and optimizer: the Trainer's own optimizer is boosted. None: the
           model is boosted already, and its optimizer is in optimizers=

    Checkpoints resume at another zero= and another number of ranks. gradient clipping (max_grad_norm), schedules and
    accumulation are the Trainer's."""

    def __init__(self, *arguments, boost=None, **options):
        self._boost_settings = boost
        super().__init__(*arguments, **options)
        if self.args.bf16 or self.args.fp16:
            raise ConfigError("bf16 and fp16 of TrainingArguments would not reach the engine: use boost={\"dtype\": \"bf16\"}")

    def create_optimizer(self, *arguments, **options):
        if self.optimizer is None:
            super().create_optimizer(*arguments, **options)
            if self._boost_settings is None:
                raise ConfigError("pass boost={...}, the arguments of colossal.boost(), or boost the model and pass optimizers=")
            boost_model(self.model, self.optimizer, **self._boost_settings)
        return self.optimizer

    def save_model(self, output_dir=None, _internal_call=False):
        output_dir = output_dir or self.args.output_dir
        if not _internal_call:
            with gather(self.model):
                super().save_model(output_dir)
                self._wait_for_all()  # the files are there when any rank goes on
            return
        engine = os.path.join(output_dir, _ENGINE)
        if self.args.should_save and os.path.exists(engine):  # of a run that went on from before this step, as here
            shutil.rmtree(engine)
        self._wait_for_all()
        path = save(self.model, engine, keep=1)
        if self.args.should_save:
            for name in os.listdir(path):
                if os.path.isfile(os.path.join(path, name)) and name != "manifest.json":
                    _link(os.path.join(path, name), os.path.join(output_dir, name))
            if self.processing_class is not None:
                self.processing_class.save_pretrained(output_dir)
            torch.save(self.args, os.path.join(output_dir, "training_args.bin"))
        self._wait_for_all()

    def _save_optimizer_and_scheduler(self, output_dir):
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), os.path.join(output_dir, _SCHEDULER))

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        self.create_optimizer()
        load(self.model, os.path.join(resume_from_checkpoint, _ENGINE), resume="must")

    def _load_optimizer_and_scheduler(self, checkpoint):
        if checkpoint is not None:
            self.lr_scheduler.load_state_dict(torch.load(os.path.join(checkpoint, _SCHEDULER), weights_only=True))
            for group, rate in zip(self.optimizer.param_groups, self.lr_scheduler.get_last_lr()):
                group["lr"] = rate  # a new scheduler has set it back

    def _load_best_model(self):
        load(self.model, os.path.join(self.state.best_model_checkpoint, _ENGINE), resume="must")

    def _wait_for_all(self):
        if torch.distributed.is_initialized():
            torch.distributed.barrier()


def _link(source, target):
    """A second name of the file, or a copy where the file system has no such names."""
    if os.path.exists(target):
        os.remove(target)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
