"""Okapi BM25 as postings: exactly the scores of rank-bm25's `BM25Okapi`, at a cost that grows with the postings touched.

A term's weight in a document is idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * dl / avgdl)), with
idf = ln(N - df + 0.5) - ln(df + 0.5); an idf below zero is replaced by epsilon times the mean idf, the mean taken over all
terms with the negative ones among them (Trotman, Puurula and Burgess, "Improvements to BM25 and Language Models Examined",
ADCS 2014, in the form of rank-bm25 0.2.2). Sums run in the order of the query's tokens, so that equal means equal to the
last bit.
"""

import functools
import math
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from librarian_pipeline.settings import Bm25Settings
from librarian_pipeline.storage.schemas import BM25_CORPUS, BM25_DOCUMENTS, POSTINGS
from librarian_pipeline.text.lemmas import normalizer_version


@dataclass(frozen=True)
class Bm25Tables:
    """An index at rest. `postings` are in the order in which terms are first seen, then by document."""

    postings: pa.Table
    documents: pa.Table
    corpus: pa.Table


def build_bm25(
    chunk_ids: Sequence[str],
    languages: Sequence[str],
    terms: Sequence[Sequence[str]],
    settings: Bm25Settings,
    normalizer: str = "none",
) -> Bm25Tables:
    """The postings, document lengths and corpus statistics of documents given as lists of terms.

    `normalizer` is noted in the statistics: a query has to be turned into terms by the same one.
    """
    postings: dict[str, list[tuple[int, int]]] = {}
    for document, document_terms in enumerate(terms):
        for term, tf in Counter(document_terms).items():
            postings.setdefault(term, []).append((document, tf))
    lengths = [len(document_terms) for document_terms in terms]
    document_frequencies = [len(entries) for entries in postings.values()]
    idfs = [_idf(len(terms), df) for df in document_frequencies]
    return Bm25Tables(
        postings=pa.table(
            {
                "term": [term for term, entries in postings.items() for _ in entries],
                "chunk_id": [chunk_ids[document] for entries in postings.values() for document, _ in entries],
                "tf": [tf for entries in postings.values() for _, tf in entries],
            },
            schema=POSTINGS,
        ),
        documents=pa.table(
            {"chunk_id": list(chunk_ids), "language": list(languages), "n_terms": lengths}, schema=BM25_DOCUMENTS
        ),
        corpus=pa.Table.from_pylist(
            [
                {
                    "n_documents": len(terms),
                    "n_distinct_terms": len(postings),
                    "average_document_terms": sum(lengths) / len(lengths) if lengths else 0.0,
                    "average_idf": _plain_sum(idfs) / len(idfs) if idfs else 0.0,
                    **settings.model_dump(),
                    "normalizer": normalizer,
                    "normalizer_version": normalizer_version(normalizer),
                }
            ],
            schema=BM25_CORPUS,
        ),
    )


def _plain_sum(values: Iterable[float]) -> float:
    """From left to right, as rank-bm25 adds up; from Python 3.12 on, `sum` compensates, which changes the last bit."""
    return functools.reduce(operator.add, values, 0.0)


def _idf(n_documents: int, document_frequency: int) -> float:
    return math.log(n_documents - document_frequency + 0.5) - math.log(document_frequency + 0.5)


class Bm25Index:
    """An index in memory, ready to score. Documents are numbered in the order of `chunk_ids`."""

    def __init__(self, tables: Bm25Tables) -> None:
        corpus = tables.corpus.to_pylist()[0]
        self.chunk_ids: list[str] = tables.documents.column("chunk_id").to_pylist()
        self.languages: npt.NDArray[np.str_] = np.array(tables.documents.column("language").to_pylist(), dtype=np.str_)
        self._k1: float = corpus["k1"]
        lengths = tables.documents.column("n_terms").to_numpy()
        average_length: float = corpus["average_document_terms"]
        relative = corpus["b"] * lengths / average_length if average_length else np.zeros(len(lengths))
        self._length_norms = self._k1 * (1 - corpus["b"] + relative)
        self._load_postings(tables.postings, corpus)

    def _load_postings(self, postings: pa.Table, corpus: dict[str, float]) -> None:
        terms = postings.column("term").combine_chunks().dictionary_encode()
        codes = terms.indices.to_numpy()
        # Postings of a term stand together; dictionary codes count up in the order of appearance.
        bounds = np.searchsorted(codes, np.arange(len(terms.dictionary) + 1))
        self._ranges = {term: (int(bounds[i]), int(bounds[i + 1])) for i, term in enumerate(terms.dictionary.to_pylist())}
        numbers = pc.index_in(postings.column("chunk_id"), value_set=pa.array(self.chunk_ids, pa.string()))
        self._documents = numbers.to_numpy().astype(np.int64)
        self._tfs = postings.column("tf").to_numpy()
        floor = corpus["epsilon"] * corpus["average_idf"]
        self._idfs: dict[str, float] = {}
        for term, (start, stop) in self._ranges.items():
            idf = _idf(len(self.chunk_ids), stop - start)
            self._idfs[term] = floor if idf < 0 else idf

    def idf(self, term: str) -> float:
        """The weight of a term; 0 for one that the corpus doesn't hold."""
        return self._idfs.get(term, 0.0)

    def highest(self, query: Sequence[str]) -> float:
        """What no document's score for the query can exceed: each term at its limit for many repetitions, idf * (k1 + 1).

        A term that the corpus doesn't hold weighs as much as it would if it were the rarest.
        """
        unseen = _idf(len(self.chunk_ids), 0)
        return _plain_sum(max(0.0, self._idfs.get(term, unseen)) for term in query) * (self._k1 + 1)

    def scores(self, query: Sequence[str]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """(score, is candidate) of every document for a query given as terms, repeated ones counted each time.

        A candidate holds at least one of the terms; its score may be zero or below all the same.
        """
        if isinstance(query, str):
            raise TypeError("a query is a list of terms, not one string")
        scores = np.zeros(len(self.chunk_ids))
        candidates = np.zeros(len(self.chunk_ids), dtype=np.bool_)
        for term in query:
            if term in self._ranges:
                start, stop = self._ranges[term]
                documents, tfs = self._documents[start:stop], self._tfs[start:stop]
                scores[documents] += self._idfs[term] * (tfs * (self._k1 + 1) / (tfs + self._length_norms[documents]))
                candidates[documents] = True
        return scores, candidates
