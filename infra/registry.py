"""The model registry: which released model is the candidate, the champion and the previous champion.

MLflow aliases of one registered model. Every exported model is a LoggedModel that holds a manifest, not the weights;
the released one becomes a version, tagged with its digest. A release always becomes `candidate`; only one whose gates
passed becomes `champion`, and the champion of before becomes `previous`; a retraining registers a candidate only, and
promotes it when it has beaten the champion.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.artifacts import ArtifactRef
from infra.credentials import client_environment
from infra.database import closing_engine, exclusive
from infra.errors import BadSpecError
from infra.settings import Settings

MODEL_NAME = "glmflow"
ALIASES = ("champion", "candidate", "previous")
DIGEST_TAG, KIND_TAG, NUM_BYTES_TAG = "glmflow.digest", "glmflow.kind", "glmflow.num_bytes"
LIFECYCLE_TAG, GATES_TAG = "glmflow.lifecycle", "glmflow.gates"
_MAX_VERSIONS = 10_000
_HOW_TO_REGISTER = "`glmflow run` registers what it releases"


def connect(uri: str) -> Any:
    """A client of the MLflow behind `uri`; its import takes seconds. Of several first ones, one makes the tables."""
    import mlflow

    mlflow.set_tracking_uri(uri)  # registering a LoggedModel looks it up through the global setting
    mlflow.set_registry_uri(uri)
    if uri.startswith("http"):
        return mlflow.MlflowClient(uri, uri)
    with closing_engine(uri) as engine, exclusive(engine, "mlflow"):
        client = mlflow.MlflowClient(uri, uri)
        client.search_experiments(max_results=1)  # MLflow makes missing tables when it is first asked, unlocked (M12)
    return client


class ModelRegistry:
    """Registered versions of our model."""

    def __init__(self, client: Any, experiment_id: str) -> None:
        self._client = client
        self._experiment_id = experiment_id

    def register(self, release: Mapping[str, Any], run_id: str, lifecycle_id: str) -> None:
        """Register a release (fields as in infra/tracking's `register`); repeating it changes nothing."""
        logged = {model["digest"]: self._logged_model(model, run_id) for model in release["models"]}
        chosen = next(model for model in release["models"] if model["digest"] == release["released"])
        version = self._version_of(chosen, logged[chosen["digest"]], run_id)
        gates = "passed" if release["is_approved"] else "failed"
        for name, value in ((LIFECYCLE_TAG, lifecycle_id), (GATES_TAG, gates)):
            self._client.set_model_version_tag(MODEL_NAME, version, name, value)
        self._client.set_registered_model_alias(MODEL_NAME, "candidate", version)
        if release["is_approved"] and release.get("promotes", True):  # journals of before know no `promotes`
            self.promote(version)

    def promote(self, version: str) -> None:
        """Make a version the champion; the champion of before becomes `previous`."""
        champion = self._by_alias("champion")
        if champion is not None and str(champion.version) == version:
            return
        if champion is not None:
            self._client.set_registered_model_alias(MODEL_NAME, "previous", champion.version)
        self._client.set_registered_model_alias(MODEL_NAME, "champion", version)

    def promote_digest(self, digest_prefix: str, *, ignores_gates: bool = False) -> ArtifactRef:
        """Make a registered model the champion. Raises BadSpecError for one that is unknown or failed its gates."""
        versions = self._client.search_model_versions(f"name = '{MODEL_NAME}'", max_results=_MAX_VERSIONS)
        found = [version for version in versions if version.tags[DIGEST_TAG].startswith(digest_prefix)]
        if len(found) != 1:
            raise BadSpecError(
                f"model {digest_prefix!r}: want one registered model, got {len(found)} of {len(versions)}; "
                "give candidate, previous or more of a digest that `glmflow run` released"
            )
        version = found[0]
        if version.tags.get(GATES_TAG) != "passed" and not ignores_gates:
            raise BadSpecError(
                f"model {version.tags[DIGEST_TAG][:12]}: want one that passed its gates, got one that failed; "
                "its report says which, and --even-if-gates-failed promotes it all the same"
            )
        self.promote(str(version.version))
        return _ref_of(version)

    def rollback(self) -> ArtifactRef:
        """Champion and previous change places. Raises BadSpecError when there is no previous champion."""
        champion, previous = self._by_alias("champion"), self._by_alias("previous")
        if champion is None or previous is None:
            raise BadSpecError("rollback: want a previous champion, got none; a second promoted model makes one")
        self._client.set_registered_model_alias(MODEL_NAME, "champion", previous.version)
        self._client.set_registered_model_alias(MODEL_NAME, "previous", champion.version)
        return _ref_of(previous)

    def withdraw(self) -> None:
        """Undo the last promotion: the previous champion is champion again, or there is none as before."""
        if self._by_alias("previous") is None:
            self._client.delete_registered_model_alias(MODEL_NAME, "champion")
        else:
            self.rollback()

    def describe(self, digest: str, text: str, tags: Mapping[str, str]) -> None:
        """Say on a model's page what was decided about it."""
        wanted = f"name = '{MODEL_NAME}' and tags.`{DIGEST_TAG}` = '{digest}'"
        for version in self._client.search_model_versions(wanted, max_results=_MAX_VERSIONS):
            self._client.update_model_version(MODEL_NAME, version.version, text)
            for name, value in tags.items():
                self._client.set_model_version_tag(MODEL_NAME, version.version, name, value)

    def resolve(self, alias: str) -> ArtifactRef | None:
        """The artifact behind an alias; None when nothing has it."""
        version = self._by_alias(alias)
        return None if version is None else _ref_of(version)

    def _by_alias(self, alias: str) -> Any | None:
        from mlflow.exceptions import MlflowException

        try:
            return self._client.get_model_version_by_alias(MODEL_NAME, alias)
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):  # no model, no alias
                return None
            raise

    def _logged_model(self, model: Mapping[str, Any], run_id: str) -> str:
        """The id of the LoggedModel of these bytes."""
        wanted = f"tags.`{DIGEST_TAG}` = '{model['digest']}'"
        found = self._client.search_logged_models([self._experiment_id], wanted, max_results=1)
        if found:
            return str(found[0].model_id)
        tags = {DIGEST_TAG: model["digest"], KIND_TAG: model["kind"], NUM_BYTES_TAG: str(model["num_bytes"])}
        created = self._client.create_logged_model(
            self._experiment_id, model["name"], run_id, tags, dict(model["params"]), model_type="glmflow"
        )
        with tempfile.TemporaryDirectory() as folder:
            manifest = Path(folder) / "manifest.json"
            manifest.write_text(json.dumps(dict(model), indent=2))
            self._client.log_model_artifact(created.model_id, str(manifest))
        self._client.finalize_logged_model(created.model_id, "READY")
        return str(created.model_id)

    def _version_of(self, model: Mapping[str, Any], model_id: str, run_id: str) -> str:
        """The version that holds these bytes, made if there is none."""
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(MODEL_NAME)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        wanted = f"name = '{MODEL_NAME}' and tags.`{DIGEST_TAG}` = '{model['digest']}'"
        found = self._client.search_model_versions(wanted, max_results=1)
        if found:
            return str(found[0].version)
        tags = {DIGEST_TAG: model["digest"], KIND_TAG: model["kind"], NUM_BYTES_TAG: str(model["num_bytes"])}
        version = self._client.create_model_version(
            MODEL_NAME, f"models:/{model_id}", run_id, tags, model_id=model_id, await_creation_for=0
        )
        return str(version.version)


def _ref_of(version: Any) -> ArtifactRef:
    tags = version.tags
    return ArtifactRef(kind=tags[KIND_TAG], digest=tags[DIGEST_TAG], num_bytes=int(tags[NUM_BYTES_TAG]))


def open_registry(settings: Settings) -> ModelRegistry:
    """The registry of this home. Raises BadSpecError when nothing was ever tracked there."""
    uri = settings.resolved_tracking_uri()
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise BadSpecError(f"registry: want a registered model, got none at {uri}; {_HOW_TO_REGISTER}")
    os.environ.update(client_environment(settings))
    return ModelRegistry(connect(uri), "")


def resolve(alias: str, settings: Settings) -> ArtifactRef:
    """The artifact behind an alias. Raises BadSpecError when nothing has been registered under it."""
    ref = open_registry(settings).resolve(alias)
    if ref is None:
        raise BadSpecError(f"model {alias!r}: want a registered model, got none; {_HOW_TO_REGISTER}")
    return ref
