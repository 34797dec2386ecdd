"""The exported files, read and scored by other people's tools, give our figures."""

from pathlib import Path

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
import pytrec_eval
from ir_measures import RR, Success, nDCG

from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.metrics import METRICS, per_query
from librarian_pipeline.evaluation.scoring import by_mode
from librarian_pipeline.evaluation.trec import QRELS_FILE, SPAN_QRELS_FILE, export_trec, qrels_table, run_file
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.storage.schemas import RANKINGS

N_RUNS = 200
IDS = [f"ep{episode:02d}:t{n:03d}" for episode in range(3) for n in range(20)]
BY_QUERY = {"MRR": RR, "MRR@10": RR @ 10, "nDCG@10": nDCG @ 10}
BY_SPAN = {"R@1": Success @ 1, "R@3": Success @ 3, "R@5": Success @ 5}


def random_gold(judged, generator: np.random.Generator):
    """Up to 8 queries of up to 3 spans, which share passages."""
    return [
        judged(f"q/{n}", *(set(generator.choice(IDS, generator.integers(1, 5)).tolist()) for _ in range(spans)))
        for n, spans in enumerate(generator.integers(1, 4, size=generator.integers(1, 9)))
    ]


def random_rankings(queries, generator: np.random.Generator) -> pa.Table:
    """Of each mode: some queries without results, others with up to 60; and few scores, so that many are tied."""
    rows = []
    for mode in MODES:
        for query in queries:
            depth = 0 if generator.random() < 0.2 else generator.integers(1, len(IDS) + 1)
            scores = np.sort(generator.integers(0, 4, depth))[::-1]
            for rank, (name, score) in enumerate(zip(generator.permutation(IDS)[:depth], scores, strict=True), start=1):
                row = {"mode": mode, "query_id": query.query_id, "rank": rank, "chunk_id": str(name), "score": float(score)}
                rows.append(row)
    return pa.Table.from_pylist(rows, schema=RANKINGS)


def span_files(folder: Path, mode: str):
    """The judgements of each span, and the run, as if each span were a query."""
    lines = [line.split() for line in (folder / SPAN_QRELS_FILE).read_text().splitlines()]
    qrels = [ir_measures.Qrel(f"{query} {span}", document, int(grade)) for query, span, document, grade in lines]
    spans = {}
    for query, span, *_ in lines:
        spans.setdefault(query, set()).add(f"{query} {span}")
    run = [
        ir_measures.ScoredDoc(span, result.doc_id, result.score)
        for result in ir_measures.read_trec_run(str(folder / run_file(mode)))
        for span in spans[result.query_id]
    ]
    return qrels, run


@pytest.mark.parametrize("seed", range(N_RUNS))
def test_ir_measures_and_trec_eval_give_our_figures_from_the_files(judged, tmp_path, seed, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # hundreds of files that nobody needs to survive a crash
    generator = np.random.default_rng(seed)
    queries = random_gold(judged, generator)
    rankings = random_rankings(queries, generator)
    export_trec(rankings, qrels_table(queries), tmp_path)
    mode = MODES[seed % len(MODES)]
    ours = per_query(queries, by_mode(rankings)[mode])

    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / QRELS_FILE)))
    run = list(ir_measures.read_trec_run(str(tmp_path / run_file(mode))))
    means = {metric: np.mean(list(values.values())) for metric, values in ours.items()}
    theirs = ir_measures.calc_aggregate(BY_QUERY.values(), qrels, run)
    assert [theirs[measure] for measure in BY_QUERY.values()] == pytest.approx([means[m] for m in BY_QUERY], abs=1e-6)

    span_values = {}
    for result in ir_measures.iter_calc(BY_SPAN.values(), *span_files(tmp_path, mode)):
        span_values.setdefault((str(result.measure), result.query_id.split()[0]), []).append(result.value)
    for metric, measure in BY_SPAN.items():
        by_query = {query_id: np.mean(values) for (name, query_id), values in span_values.items() if name == str(measure)}
        assert by_query == pytest.approx(ours[metric], abs=1e-6)

    with (tmp_path / QRELS_FILE).open() as file:
        judgements = pytrec_eval.parse_qrel(file)
    with (tmp_path / run_file(mode)).open() as file:
        found = pytrec_eval.RelevanceEvaluator(judgements, {"recip_rank", "ndcg_cut.10"}).evaluate(
            pytrec_eval.parse_run(file)
        )
    for metric, measure in {"MRR": "recip_rank", "nDCG@10": "ndcg_cut_10"}.items():
        # trec_eval leaves out queries without results
        assert {query_id: values[measure] for query_id, values in found.items()} == pytest.approx(
            {query_id: ours[metric][query_id] for query_id in found}, abs=1e-6
        )
        assert all(ours[metric][query_id] == 0 for query_id in judgements.keys() - found.keys())
    assert set(BY_QUERY) | set(BY_SPAN) == set(METRICS)


def ranked(mode: str, query_id: str, *names: str, score: float = 1.0) -> list[dict[str, object]]:
    return [
        {"mode": mode, "query_id": query_id, "rank": rank, "chunk_id": name, "score": score}
        for rank, name in enumerate(names, start=1)
    ]


def test_the_lines_are_those_of_trec(judged, tmp_path):
    rankings = pa.Table.from_pylist(ranked("dense", "q1", "z", "a"), schema=RANKINGS)
    exported = export_trec(rankings, qrels_table([judged("q1", {"a", "b"}, {"b"})]), tmp_path / "new")
    assert [path.name for path in exported.files] == [QRELS_FILE, SPAN_QRELS_FILE, *(f"{mode}.run" for mode in MODES)]
    assert (tmp_path / "new" / QRELS_FILE).read_text() == "q1 0 a 1\nq1 0 b 1\n"
    assert (tmp_path / "new" / SPAN_QRELS_FILE).read_text() == "q1 1 a 1\nq1 1 b 1\nq1 2 b 1\n"
    assert (tmp_path / "new" / "dense.run").read_text() == "q1 Q0 z 1 1.0 dense\nq1 Q0 a 2 0.5 dense\n"
    assert (tmp_path / "new" / "hybrid.run").read_text() == ""


def test_scores_fall_strictly_even_as_the_32_bit_numbers_of_trec_eval(judged, tmp_path):
    names = [f"p{n:04d}" for n in range(1_000)]
    export_trec(
        pa.Table.from_pylist(ranked("dense", "q1", *names), schema=RANKINGS), qrels_table([judged("q1", {"a"})]), tmp_path
    )
    scores = np.array([line.split()[4] for line in (tmp_path / "dense.run").read_text().splitlines()], dtype=np.float32)
    assert (np.diff(scores) < 0).all()


def test_a_query_none_of_whose_spans_resolve_is_left_out_and_named(judged, tmp_path):
    rankings = pa.Table.from_pylist([*ranked("dense", "q1", "a"), *ranked("dense", "q2", "a")], schema=RANKINGS)
    exported = export_trec(rankings, qrels_table([judged("q1", {"a"}), judged("q2")]), tmp_path)
    assert exported.left_out == ("q2",)
    assert "q2" not in "".join(path.read_text() for path in exported.files)


def test_a_folder_that_cant_be_made_is_one_clear_error(judged, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--trec DIR"):
        export_trec(RANKINGS.empty_table(), qrels_table([judged("q1", {"a"})]), tmp_path / "file" / "new")
