"""The public side: releases, their error bars, and their files."""
