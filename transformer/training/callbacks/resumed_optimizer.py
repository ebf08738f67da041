"""Which settings of the optimizer hold when a run goes on from a checkpoint: the current ones."""

from typing import Any

from lightning import Callback, LightningModule, Trainer


class ResumedOptimizer(Callback):
    """Lets the optimizer go on with its saved state, but with the current learning rate, weight decay and schedule.

    Lightning restores all of these as they were saved."""

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        saved_groups = [group for state in checkpoint["optimizer_states"] for group in state["param_groups"]]
        translation_module: Any = module
        current_groups = translation_module.build_optimizer().param_groups
        for group, now in zip(saved_groups, current_groups, strict=True):
            group |= {key: value for key, value in now.items() if key != "params"} | {"initial_lr": now["lr"]}
        for schedule in checkpoint["lr_schedulers"]:
            schedule["base_lrs"] = [group["initial_lr"] for group in saved_groups]

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        # What a checkpoint says of the next step's rate may be by another schedule.
        for config in trainer.lr_scheduler_configs:
            schedule: Any = config.scheduler
            groups = zip(schedule.optimizer.param_groups, schedule.base_lrs, schedule.lr_lambdas, strict=True)
            for group, peak, factor in groups:
                group["lr"] = peak * factor(schedule.last_epoch)
