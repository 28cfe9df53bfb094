"""Known bugs of releases, their files and their pages: files hold no secrets, and texts cannot become scripts."""

from mutants.bug import Bug

RELEASE = "src/heathaze/release/release.py"
PAGE = "src/heathaze/maps/page.py"
PUBLISH = "src/heathaze/publishing.py"
NPZ = "src/heathaze/release/formats/npz.py"

BUGS = (
    Bug(
        "simulated-release-saved",
        "A release made with simulated randomness is never saved.",
        RELEASE,
        "        if self.simulated:\n",
        "        if False:\n",
        "tests/contract/test_attacks.py::test_a_key_of_ones_own_makes_no_release",
    ),
    Bug(
        "simulated-mark-forgotten",
        "A release put together by hand from a simulated estimate is never saved.",
        "src/heathaze/central/adaptive_tree.py",
        ", simulated=randomness.simulated)",
        ")",
        "tests/release/test_format_contract.py::"
        "test_a_release_put_together_by_hand_from_a_simulated_estimate_cannot_be_saved",
    ),
    Bug(
        "unescaped-title",
        "A title is shown as text and cannot be a script.",
        PAGE,
        '"title": html.escape(title),',
        '"title": title,',
        "tests/maps/test_page.py::test_hostile_texts_stay_texts",
    ),
    Bug(
        "tiles-name-any-policy",
        "The address of tiles adds one server to the policy of a page, and no other permission.",
        "src/heathaze/maps/sheet.py",
        "if self.tiles and (known is None or not all(",
        "if self.tiles and (not all(",
        "tests/maps/test_page.py::test_tiles_widen_the_policy_by_one_server",
    ),
    Bug(
        "unescaped-guarantee",
        "A guarantee is shown as text and cannot be a script.",
        PAGE,
        '"guarantee": html.escape(guarantee),',
        '"guarantee": guarantee,',
        "tests/maps/test_page.py::test_hostile_texts_stay_texts",
    ),
    Bug(
        "unescaped-facts",
        "Facts are shown as text and cannot be a script.",
        PAGE,
        "<dd>{html.escape(value)}</dd>",
        "<dd>{value}</dd>",
        "tests/maps/test_page.py::test_hostile_texts_stay_texts",
    ),
    Bug(
        "script-ends-early",
        "The data of a page cannot end the script that holds them.",
        PAGE,
        'return text.replace("<", "\\\\u003c").replace(">", "\\\\u003e").replace("&", "\\\\u0026")',
        "return text",
        "tests/maps/test_page.py::test_hostile_texts_stay_texts",
    ),
    Bug(
        "title-filled-in-twice",
        "A title that looks like a placeholder is not filled in again.",
        PAGE,
        "    # One pass: a title that looks like a placeholder is not filled in again.\n",
        '    page = _text("page.html")\n'
        "    for name, value in filled.items():\n"
        '        page = page.replace("{{" + name + "}}", value)\n'
        "    if page:\n        return page\n",
        "tests/maps/test_page.py::test_hostile_texts_stay_texts",
    ),
    Bug(
        "any-script-allowed",
        "A page's policy allows its own scripts alone.",
        PAGE,
        "script-src {_hash(leaflet)} {_hash(script)};",
        "script-src 'unsafe-inline';",
        "tests/maps/test_page.py::test_the_policy_allows_exactly_what_is_in_the_page",
    ),
    Bug(
        "unescaped-district",
        "The name of a district is shown as text and cannot be a script.",
        PAGE,
        'html.escape(f"{name}, {where}" if name else where)',
        '(f"{name}, {where}" if name else where)',
        "tests/maps/test_page.py::test_hostile_texts_stay_texts",
    ),
    Bug(
        "release-tells-the-hour",
        "A release states the day on which it was made, and no finer time.",
        "src/heathaze/privacy/provenance.py",
        "datetime.datetime.now(datetime.UTC).date().isoformat()",
        "datetime.datetime.now(datetime.UTC).isoformat()",
        "tests/contract/test_the_door.py::test_a_release_says_the_day_and_no_finer_time",
    ),
    Bug(
        "release-tells-the-true-number",
        "Files hold no number of rows or people.",
        PUBLISH,
        "parameters, weight",
        'parameters | {"people": int(counts.mass.sum()) // counts.one}, weight',
        "tests/contract/test_the_door.py::test_beside_map_and_total_a_release_is_the_same_for_all_data",
    ),
    Bug(
        "pickles-loaded",
        "Nothing in a release file is executed when it is loaded.",
        NPZ,
        "        version = np.lib.format.read_magic(file)\n",
        "        if name:\n            return np.lib.format.read_array(file, allow_pickle=True)\n"
        "        version = np.lib.format.read_magic(file)\n",
        "tests/release/test_loading.py::test_nothing_is_unpickled",
    ),
    Bug(
        "smaller-loss-loaded",
        "A file that states a smaller loss than its event costs is refused.",
        "src/heathaze/release/formats/metadata.py",
        "    if guarantee.loss.epsilon < cost.epsilon:\n",
        "    if guarantee.loss.epsilon < 0 * cost.epsilon:\n",
        "tests/release/test_promise.py::test_a_guarantee_that_does_not_follow_is_refused",
    ),
    Bug(
        "gaussian-loaded-as-pure",
        "A file that states no δ for noise that costs one is refused.",
        "src/heathaze/release/formats/metadata.py",
        "    if events.needs_delta(event) and guarantee.loss.delta == 0:\n",
        "    if events.needs_delta(event) and guarantee.loss.delta < 0:\n",
        "tests/release/test_promise.py::test_a_guarantee_that_does_not_follow_is_refused",
    ),
    Bug(
        "edited-unit-loaded",
        "A file whose sentence names another unit than its fields is refused.",
        "src/heathaze/release/formats/metadata.py",
        "    if named.groups() != stated:\n",
        "    if False:\n",
        "tests/release/test_promise.py::test_a_unit_that_was_edited_shows_in_the_sentence",
    ),
    Bug(
        "mixed-trust-loaded",
        "A file whose event mixes noise of different trust is refused.",
        "src/heathaze/release/formats/metadata.py",
        "    if len(trusted) != 1:\n",
        "    if len(trusted) == 0:\n",
        "tests/release/test_promise.py::test_a_guarantee_that_does_not_follow_is_refused",
    ),
    Bug(
        "other-terms-loaded",
        "A file that states another trust, unit or adjacency than follows from its event is refused.",
        "src/heathaze/release/formats/metadata.py",
        "        if stated not in possible:\n",
        "        if not possible and stated:\n",
        "tests/release/test_promise.py::test_a_guarantee_that_does_not_follow_is_refused",
    ),
    Bug(
        "simulated-release-loaded",
        "A file that says it was made with simulated randomness is refused.",
        "src/heathaze/release/formats/metadata.py",
        "    if provenance.simulated:\n",
        "    if provenance is None:\n",
        "tests/release/test_promise.py::test_a_file_that_says_it_was_simulated_is_refused",
    ),
)
