# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent to the engine and how its answers are scored: plans, prompts, phases.

Imports nothing at package level, so that a module ships only what it uses.
"""
