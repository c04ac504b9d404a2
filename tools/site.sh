#!/usr/bin/env bash
# Usage: site.sh
#   The documentation as a site, in build/site/build/html: the plugins' and roles' own documentation by antsibull-docs, and the
#   Markdown pages of this checkout as they are. Every warning is an error. Nothing is fetched.
. "$(dirname "$0")/lib.sh"

site=$build/site
log=$build/site.log
PATH=$root/.venv/bin:$PATH
export ANSIBLE_NOCOLOR=1
cd "$root"
rm -rf "$site"
mkdir -p "$site/rst"
pages=(README.md CONTRIBUTING.md CHANGELOG.rst docs/*.md docs/examples/README.md docs/examples/*/transcript.txt)

antsibull-docs sphinx-init --use-current --fail-on-error --no-add-antsibull-docs-version --dest-dir "$site" \
  --sphinx-theme sphinx_rtd_theme --index-rst-source docs/docsite/index.rst \
  --project lobes.spike --title lobes.spike --copyright "lobes.spike contributors" lobes.spike >"$log"
cat >>"$site/conf.py" <<'PYTHON'

# Markdown pages of the checkout, copied here where they are in the checkout, so that their links hold.
extensions += ['myst_parser']
# Blocks that name no language are command lines and output.
highlight_language = 'text'
html_static_path = ['static']
html_css_files = ['site.css']
# Built without a network: of Ansible's own documentation the few places that pages here refer to, see tools/site.sh.
intersphinx_mapping = {'ansible': ('https://docs.ansible.com/projects/ansible/latest/', '../ansible.inv')}
PYTHON
# Their inventory, in the form that Sphinx reads. A label that is neither here nor on the site is an error.
python - "$site/ansible.inv" <<'PYTHON'
import pathlib
import sys
import zlib

places = {
    "action_plugins": "plugins/action.html",
    "ansible_collections.ansible.builtin.copy_module": "collections/ansible/builtin/copy_module.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}
lines = [f"{label} std:label -1 {page}#{label.replace('_', '-').replace('.', '-')} -\n" for label, page in places.items()]
head = "# Sphinx inventory version 2\n# Project: Ansible\n# Version: \n# The remainder of this file is compressed using zlib.\n"
pathlib.Path(sys.argv[1]).write_bytes(head.encode() + zlib.compress("".join(lines).encode()))
PYTHON
cp --parents "${pages[@]}" "$site/rst"
install -D -m 644 docs/docsite/site.css "$site/static/site.css"

"$site/build.sh" >>"$log" 2>&1 || { grep -E 'WARNING|ERROR|rror:' "$log" | tail -n 40; die "the site has faults; all of it is in ${log#"$root"/}"; }
say "$(find "$site/build/html" -name '*.html' | wc -l) pages in ${site#"$root"/}/build/html/index.html"
