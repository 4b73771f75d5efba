"""Tests of how numbers, amounts and options are written, by the table that the Python code reads, too."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//rules/private:amounts.bzl", "bytes_of", "number_of", "percent_of")
load("//rules/private:options.bzl", "mismatch")
load("//tests/unit/etbuild:grammar.bzl", "BYTES", "NUMBERS", "OPTIONS", "PERCENTAGES")

def _grammar_impl(ctx):
    env = unittest.begin(ctx)
    for read, table in ((number_of, NUMBERS), (percent_of, PERCENTAGES), (bytes_of, BYTES)):
        for text, value in table.items():
            asserts.equals(env, value, read(text), "%s of \"%s\"" % (read, text))
    for (kind, text), value in OPTIONS.items():
        asserts.equals(env, value != None, not mismatch(text, kind), "\"%s\" as %s" % (text, kind))
    return unittest.end(env)

grammar_test = unittest.make(_grammar_impl)
