"""S3's conditional writes: moto's server, one request at a time, as it compares and stores in two steps."""

import io
import json
from functools import cache
from threading import Thread

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from moto.server import DomainDispatcherApplication, create_backend_app
from scenarios import *  # noqa: F403
from werkzeug.serving import WSGIRequestHandler, make_server

# snippet: s3
import json

from botocore.exceptions import ClientError

# Another write came first, is under way, or has deleted the object.
AGAIN = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}


def put(s3, bucket, key, token, value):
    while True:
        try:
            found = s3.get_object(Bucket=bucket, Key=key)
            condition, highest = {"IfMatch": found["ETag"]}, json.load(found["Body"])["token"]
        except s3.exceptions.NoSuchKey:
            condition, highest = {"IfNoneMatch": "*"}, 0
        if token < highest:
            return False
        body = json.dumps({"token": token, "value": value})
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=body, **condition)
            return True
        except ClientError as error:
            if error.response["Error"]["Code"] not in AGAIN:
                raise
# end


def connect(place):
    secrets = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=place, **secrets)


client = cache(connect)


def write(place, token, value):
    return put(client(place), "invoices", "42", token, value)


def read(place):
    return json.load(client(place).get_object(Bucket="invoices", Key="42")["Body"])["value"]


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), request_handler=Quiet)
    Thread(target=server.serve_forever, args=[0.01]).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def place(server):
    client(server).create_bucket(Bucket="invoices")
    client(server).delete_object(Bucket="invoices", Key="42")
    return server


def before_the_first_put(place, act):
    """A client that calls this just before it sends its first PutObject; what it returns is the response."""
    acts, s3 = [act], connect(place)
    s3.meta.events.register("before-send.s3.PutObject", lambda **_: acts.pop()() if acts else None)
    return s3


@pytest.mark.parametrize("value", ["first", "second"], ids=["another value", "the same value"])
@pytest.mark.parametrize("stored", [None, "second"], ids=["a fresh object", "an object"])
def test_a_write_between_the_check_and_the_put(place, stored, value):
    if stored:
        assert write(place, 1, stored)

    def newer():
        assert write(place, 3, "second")

    assert not put(before_the_first_put(place, newer), "invoices", "42", 2, value)
    assert read(place) == "second"
    assert not write(place, 2, "late")


def test_an_object_that_is_deleted_between_the_check_and_the_put(place):
    assert write(place, 1, "old")

    def delete():
        client(place).delete_object(Bucket="invoices", Key="42")

    assert put(before_the_first_put(place, delete), "invoices", "42", 2, "new")
    assert read(place) == "new"


class Body(io.BytesIO):
    def stream(self, **_):
        yield self.read()


def refusing(place, status, code):
    """A client that gets this response, which moto does not have, to its first PutObject."""
    response = AWSResponse(place, status, {}, Body(f"<Error><Code>{code}</Code></Error>".encode()))
    return before_the_first_put(place, lambda: response)


def test_a_conflict_is_tried_again(place):
    assert put(refusing(place, 409, "ConditionalRequestConflict"), "invoices", "42", 1, "new")
    assert read(place) == "new"


def test_another_error_is_raised(place):
    with pytest.raises(ClientError, match="AccessDenied"):
        put(refusing(place, 403, "AccessDenied"), "invoices", "42", 1, "new")
