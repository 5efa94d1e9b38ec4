"""torch.nn.utils.clip_grad_norm_() for boosted models: it finds no gradients in the parameters, because the engine has them."""
import functools

import torch
from torch.nn.utils import clip_grad

from ._engine import ConfigError


def teach_clipping(boosted_of):
    """Lets torch's functions ask the engine if they are given a boosted model's parameters; for all others they do what they
    did. boosted_of: returns the Boosted of a parameter, or None."""
    if getattr(clip_grad._clip_grads_with_norm_, "asks_colossal", False):
        return
    # A program may hold clip_grad_norm_ itself, so what it calls is replaced.
    total_norm_of, clip_with_norm, clip_value = clip_grad._get_total_norm, clip_grad._clip_grads_with_norm_, clip_grad.clip_grad_value_
    last = {"norm_type": 2.0}

    @functools.wraps(total_norm_of)
    def get_total_norm(tensors, norm_type=2.0, *arguments, **options):
        last["norm_type"] = float(norm_type)
        return total_norm_of(tensors, norm_type, *arguments, **options)

    def owner_of(parameters):
        parameters = _as_list(parameters)
        owners = [boosted_of(parameter) for parameter in parameters]
        owner = next((owner for owner in owners if owner is not None), None)
        if owner is not None:
            given = {id(parameter) for parameter in parameters if parameter.requires_grad}
            if given != owner.ids_of_trained():
                raise ConfigError("clip_grad_norm_ of a boosted model takes all its trainable parameters, and no others; "
                                  f"it has {len(owner.ids_of_trained())}, and {len(given)} were given")
        return parameters, owner

    @functools.wraps(clip_with_norm)
    def clip_grads_with_norm(parameters, max_norm, total_norm, foreach=None):
        parameters, owner = owner_of(parameters)
        if owner is None:
            return clip_with_norm(parameters, max_norm, total_norm, foreach)
        if last["norm_type"] != 2.0:
            raise ConfigError(f"clip_grad_norm_ of a boosted model has norm_type=2, not {last['norm_type']}")
        total_norm.fill_(owner.clip(float(max_norm)))  # clip_grad_norm_ returns this tensor
        return None

    @functools.wraps(clip_value)
    def clip_grad_value_(parameters, *arguments, **options):
        parameters = _as_list(parameters)
        if any(boosted_of(parameter) is not None for parameter in parameters):
            raise ConfigError("clip_grad_value_ of a boosted model: the engine clips by norm; use clip_grad_norm_, or boost(max_grad_norm=)")
        return clip_value(parameters, *arguments, **options)

    clip_grads_with_norm.asks_colossal = True
    clip_grad._get_total_norm, clip_grad._clip_grads_with_norm_ = get_total_norm, clip_grads_with_norm
    clip_grad.clip_grad_value_ = torch.nn.utils.clip_grad_value_ = clip_grad_value_


def _as_list(parameters):
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
