"""Laws of error answers."""

import asyncio

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from infra.server.errors import ApiError, answer_api_error, answer_http_error, field_name, of_validation

REQUEST = Request({"type": "http", "method": "GET", "path": "/nowhere", "headers": []})


@pytest.mark.parametrize(
    ("location", "name"),
    [
        (("body", "messages", 0, "role"), "messages[0].role"),
        (("body", "stop"), "stop"),
        (("query", "x"), "x"),
        (("body",), ""),
    ],
)
def test_a_field_is_named_as_the_caller_wrote_it(location, name: str):
    assert field_name(location) == name


def test_the_body_has_openai_shape_and_tells_whose_fault_it_is():
    assert ApiError("m", param="p", code="c").body == {
        "error": {"message": "m", "type": "invalid_request_error", "param": "p", "code": "c"}
    }
    assert ApiError("m", status=503).body["error"]["type"] == "server_error"


def test_an_overloaded_server_says_when_to_ask_again():
    response = asyncio.run(answer_api_error(REQUEST, ApiError("m", status=503)))
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


def test_an_unknown_path_is_answered_in_the_same_shape():
    response = asyncio.run(answer_http_error(REQUEST, HTTPException(404)))
    assert response.status_code == 404
    assert b"GET /nowhere: Not Found" in response.body


def test_a_missing_field_and_the_number_of_other_problems_are_told():
    problem = {"type": "missing", "loc": ("body", "model"), "msg": "Field required", "input": {}}
    error = of_validation(RequestValidationError([problem, problem]))
    assert str(error) == "model: want a value, got nothing (and 1 more)"
    assert error.param == "model"
